// Max, Min, Sum, Mean and Clip.
#include <cmath>
#include <limits>
#include <optional>

#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

struct Plus {
  template <class W>
  static W of(W a, W b) {
    return a + b;
  }
};
// NaN wins.
struct Least {
  template <class W>
  static W of(W a, W b) {
    return a < b || a != a ? a : b;
  }
};
struct Most {
  template <class W>
  static W of(W a, W b) {
    return a > b || a != a ? a : b;
  }
};

void declare_broadcast(OpCall& call) {
  require(call.inputs() > 0, "there is no input");
  Shape shape = call.input(0).shape();
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    require(call.input(i).dtype() == call.input(0).dtype(), "inputs of different element types");
    shape = broadcast(shape, call.input(i).shape());
  }
  call.declare_output(0, call.input(0).dtype(), shape);
}

// Folds the inputs with F in their compute type.
template <class F>
Tensor folded(OpCall& call) {
  declare_broadcast(call);
  const DType type = call.input(0).dtype(), wide = wide_number(type);
  Tensor result = converted(call.input(0), wide);
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    const Tensor next = converted(call.input(i), wide);
    const Tensor out(wide, broadcast(result.shape(), next.shape()));
    visit_wide_numbers(wide, [&]<class W>() {
      map2<W, W, W>(result, next, out, [](W a, W b) { return F::of(a, b); });
    });
    result = out;
  }
  return result;
}

template <class F>
void join(OpCall& call) {
  call.set_output(0, converted(folded<F>(call), call.input(0).dtype()));
}

void mean(OpCall& call) {
  const Tensor sum = folded<Plus>(call);
  const Tensor out(sum.dtype(), sum.shape());
  visit_wide_reals(sum.dtype(), [&]<class W>() {
    map<W, W>(call, sum, out, [n = static_cast<W>(call.inputs())](W x) { return x / n; });
  });
  call.set_output(0, converted(out, call.input(0).dtype()));
}

// The scalar input i, if present.
template <class T>
std::optional<T> bound(OpCall& call, std::size_t i) {
  if (!call.has(i)) return {};
  const Tensor& tensor = call.input(i);
  require(tensor.dtype() == kDTypeOf<T> && tensor.size() == 1,
          "a bound must be one number of the input's type");
  return as<T>(tensor)[0];
}

template <class T>
void clip_to(OpCall& call, std::optional<Wide<T>> min, std::optional<Wide<T>> max) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  map<T, T>(call, in, out, [=](Wide<T> x) {
    if (min && (x < *min || *min != *min)) x = *min;  // NaN propagates
    if (max && (x > *max || *max != *max)) x = *max;
    return x;
  });
}

void clip_by_attributes(OpCall& call) {
  const float* const min = call.attributes().find<float>("min");
  const float* const max = call.attributes().find<float>("max");
  visit_reals(call.input(0).dtype(), [&]<class T>() {
    const auto value = [](const float* x) {
      return x != nullptr ? std::optional<Wide<T>>(static_cast<Wide<T>>(*x)) : std::nullopt;
    };
    clip_to<T>(call, value(min), value(max));
  });
}

void clip(OpCall& call) {
  visit_numbers(call.input(0).dtype(), [&]<class T>() {
    const std::optional<T> min = bound<T>(call, 1), max = bound<T>(call, 2);
    clip_to<T>(call, min ? std::optional<Wide<T>>(*min) : std::nullopt,
               max ? std::optional<Wide<T>>(*max) : std::nullopt);
  });
}

constexpr Op kVariadicOps[] = {
    {"Clip", 1, kReals, clip_by_attributes}, {"Clip", 11, kNumbers, clip},
    {"Max", 1, kNumbers, join<Most>},        {"Mean", 1, kReals, mean},
    {"Min", 1, kNumbers, join<Least>},       {"Sum", 1, kReals, join<Plus>},
};

}  // namespace

std::span<const Op> variadic_ops() { return kVariadicOps; }

}  // namespace sluice::engine
