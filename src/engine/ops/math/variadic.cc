// Any number of tensors in, stretched to one shape; and values kept within bounds.
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
// A value that is no number wins.
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

void tell_stretched(OpCall& call) {
  require(call.inputs() > 0, "there is no input");
  Shape shape = call.input(0).shape();
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    require(call.input(i).dtype() == call.input(0).dtype(), "inputs of different element types");
    shape = broadcast(shape, call.input(i).shape());
  }
  call.tell(0, call.input(0).dtype(), shape);
}

// The inputs joined by F, one after the other, as their wide type.
template <class F>
Tensor joined(OpCall& call) {
  tell_stretched(call);
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
  call.give(0, converted(joined<F>(call), call.input(0).dtype()));
}

void mean(OpCall& call) {
  const Tensor sum = joined<Plus>(call);
  const Tensor out(sum.dtype(), sum.shape());
  visit_wide_reals(sum.dtype(), [&]<class W>() {
    map<W, W>(call, sum, out, [n = static_cast<W>(call.inputs())](W x) { return x / n; });
  });
  call.give(0, converted(out, call.input(0).dtype()));
}

// One number of input i, if it is there.
template <class T>
std::optional<T> bound(OpCall& call, std::size_t i) {
  if (!call.has(i)) return {};
  const Tensor& tensor = call.input(i);
  require(tensor.dtype() == kDTypeOf<T> && tensor.size() == 1,
          "a bound must be one number of the input's type");
  return as<T>(tensor)[0];
}

template <class T>
void clip_to(OpCall& call, std::optional<Wide<T>> least, std::optional<Wide<T>> most) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  map<T, T>(call, in, out, [=](Wide<T> x) {
    if (least && x < *least) x = *least;
    if (most && x > *most) x = *most;
    return x;
  });
}

void clip_by_attributes(OpCall& call) {
  const float* const least = call.attributes().find<float>("min");
  const float* const most = call.attributes().find<float>("max");
  visit_reals(call.input(0).dtype(), [&]<class T>() {
    const auto value = [](const float* x) {
      return x != nullptr ? std::optional<Wide<T>>(static_cast<Wide<T>>(*x)) : std::nullopt;
    };
    clip_to<T>(call, value(least), value(most));
  });
}

void clip(OpCall& call) {
  visit_numbers(call.input(0).dtype(), [&]<class T>() {
    const std::optional<T> least = bound<T>(call, 1), most = bound<T>(call, 2);
    clip_to<T>(call, least ? std::optional<Wide<T>>(*least) : std::nullopt,
               most ? std::optional<Wide<T>>(*most) : std::nullopt);
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
