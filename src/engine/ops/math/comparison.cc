// Comparison and logical operators with broadcasting, and Where.
#include "engine/ops/broadcast.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

// The two inputs and the boolean output.
struct Comparison {
  Tensor a, b, out;

  explicit Comparison(OpCall& call) : a(call.input(0)), b(second_input(call)) {
    require(a.dtype() == b.dtype(), "inputs of two element types");
    out = call.output(0, DType::boolean, broadcast(a.shape(), b.shape()));
  }
};

// Integers of one width are equal if their bits are.
void equal(OpCall& call) {
  const Comparison c(call);
  const auto compare = [&]<class T>() {
    map2<T, T, bool>(c.a, c.b, c.out, [](const T& x, const T& y) { return x == y; });
  };
  if (is_integer(c.a.dtype()) || c.a.dtype() == DType::boolean)
    return visit_widths(c.a.dtype(), [&]<class T>() {
      if constexpr (std::is_unsigned_v<T>) compare.template operator()<T>();
    });
  visit_types<float, double, Half, BFloat16, std::string>(c.a.dtype(), compare);
}

template <bool kOrEqual>
void ordered(const Comparison& c, const Tensor& less, const Tensor& more) {
  visit_numbers(c.a.dtype(), [&]<class T>() {
    map2<T, T, bool>(less, more, c.out, [](Wide<T> x, Wide<T> y) {
      if constexpr (kOrEqual)
        return x <= y;
      else
        return x < y;
    });
  });
}

void less(OpCall& call) {
  const Comparison c(call);
  ordered<false>(c, c.a, c.b);
}
void greater(OpCall& call) {
  const Comparison c(call);
  ordered<false>(c, c.b, c.a);
}
void less_or_equal(OpCall& call) {
  const Comparison c(call);
  ordered<true>(c, c.a, c.b);
}
void greater_or_equal(OpCall& call) {
  const Comparison c(call);
  ordered<true>(c, c.b, c.a);
}

template <class F>
void logic(OpCall& call) {
  const Comparison c(call);
  map2<bool, bool, bool>(c.a, c.b, c.out, [](bool x, bool y) { return F::of(x, y); });
}
struct And {
  static bool of(bool a, bool b) { return a && b; }
};
struct Or {
  static bool of(bool a, bool b) { return a || b; }
};
struct Xor {
  static bool of(bool a, bool b) { return a != b; }
};

void where(OpCall& call) {
  const Tensor &which = call.input(0), &a = call.input(1), &b = call.input(2);
  require(a.dtype() == b.dtype(), "inputs of two element types");
  const Shape shape = broadcast(which.shape(), broadcast(a.shape(), b.shape()));
  const Tensor out = call.output(0, a.dtype(), shape);
  if (a.dtype() == DType::string)
    for (const Tensor& from : {a, b})
      reserve_string_bytes(out,
                           static_cast<double>(from.size() == 0 ? 0 : out.size() / from.size()) *
                               static_cast<double>(string_bytes(as<std::string>(from))));
  const BroadcastLoop<3> loop(shape, {which.shape(), a.shape(), b.shape()});
  visit_widths(a.dtype(), [&]<class T>() {
    const bool* const w = as<bool>(which).data();
    const T *const x = as<T>(a).data(), *const y = as<T>(b).data();
    T* const z = as<T>(out).data();
    loop.each_row([&](std::int64_t to, const auto& at, std::int64_t count, const auto& step) {
      for (std::int64_t i = 0; i < count; ++i)
        z[to + i] = w[at[0] + i * step[0]] ? x[at[1] + i * step[1]] : y[at[2] + i * step[2]];
    });
  });
}

constexpr Types kBool{DType::boolean};

constexpr Op kCompareOps[] = {
    {"And", 1, kBool, logic<And>},     {"Equal", 1, kNumbers | kBool | Types{DType::string}, equal},
    {"Greater", 1, kNumbers, greater}, {"GreaterOrEqual", 12, kNumbers, greater_or_equal},
    {"Less", 1, kNumbers, less},       {"LessOrEqual", 12, kNumbers, less_or_equal},
    {"Or", 1, kBool, logic<Or>},       {"Where", 9, kBool, where},
    {"Xor", 1, kBool, logic<Xor>},
};

}  // namespace

std::span<const Op> compare_ops() { return kCompareOps; }

}  // namespace sluice::engine
