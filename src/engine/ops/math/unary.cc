// Elementwise functions of one tensor.
#include <cmath>
#include <limits>

#include "engine/ops/elementwise.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// Applies `f` to each element of a float input.
template <class F>
void real(OpCall& call) {
  map_reals(call, [](auto x) { return F::of(x); });
}

// Applies `f` to each element of a numeric input.
template <class F>
void number(OpCall& call) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_numbers(in.dtype(),
                [&]<class T>() { map<T, T>(call, in, out, [](auto x) { return F::of(x); }); });
}

#define SLUICE_UNARY(NAME, EXPRESSION) \
  struct NAME {                        \
    template <class W>                 \
    static W of(W x) {                 \
      return EXPRESSION;               \
    }                                  \
  };
SLUICE_UNARY(Acos, std::acos(x))
SLUICE_UNARY(Acosh, std::acosh(x))
SLUICE_UNARY(Asin, std::asin(x))
SLUICE_UNARY(Asinh, std::asinh(x))
SLUICE_UNARY(Atan, std::atan(x))
SLUICE_UNARY(Atanh, std::atanh(x))
SLUICE_UNARY(Ceil, std::ceil(x))
SLUICE_UNARY(Cos, std::cos(x))
SLUICE_UNARY(Cosh, std::cosh(x))
SLUICE_UNARY(Exp, std::exp(x))
SLUICE_UNARY(Floor, std::floor(x))
SLUICE_UNARY(Log, std::log(x))
SLUICE_UNARY(Reciprocal, W(1) / x)
SLUICE_UNARY(Round, std::nearbyint(x))  // half to even
SLUICE_UNARY(Sin, std::sin(x))
SLUICE_UNARY(Sinh, std::sinh(x))
SLUICE_UNARY(Sqrt, std::sqrt(x))
SLUICE_UNARY(Tan, std::tan(x))
SLUICE_UNARY(Tanh, std::tanh(x))
#undef SLUICE_UNARY

struct Erf {
  template <class W>
  static W of(W x) {
    if constexpr (std::is_integral_v<W>)
      return static_cast<W>(std::erf(static_cast<double>(x)));
    else
      return std::erf(x);
  }
};

struct Abs {
  template <class W>
  static W of(W x) {
    if constexpr (std::is_floating_point_v<W>)
      return std::fabs(x);
    else if constexpr (std::is_signed_v<W>)
      return x < 0 ? static_cast<W>(std::make_unsigned_t<W>(0) -
                                    static_cast<std::make_unsigned_t<W>>(x))
                   : x;
    else
      return x;
  }
};

struct Neg {
  template <class W>
  static W of(W x) {
    if constexpr (std::is_floating_point_v<W>)
      return -x;
    else  // the minimum value is its own negation
      return static_cast<W>(std::make_unsigned_t<W>(0) - static_cast<std::make_unsigned_t<W>>(x));
  }
};

struct Sign {
  template <class W>
  static W of(W x) {
    if constexpr (std::is_floating_point_v<W>)
      if (std::isnan(x)) return x;
    if constexpr (std::is_unsigned_v<W>)
      return x > W(0) ? W(1) : W(0);
    else
      return x > W(0) ? W(1) : x < W(0) ? W(-1) : W(0);
  }
};

constexpr Types kTinyFloats{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};

// Sets output 0 to whether `test` holds for each element of input 0.
template <class Test>
void ask(OpCall& call, Test&& test) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, DType::boolean, in.shape());
  visit_types<float, double, Half, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2,
              Float8E5M2FNUZ>(in.dtype(), [&]<class T>() { map<T, bool>(call, in, out, test); });
}

void is_nan(OpCall& call) {
  ask(call, [](auto x) { return std::isnan(x); });
}

void is_inf(OpCall& call) {
  const bool positive = call.attributes().flag("detect_positive", true);
  const bool negative = call.attributes().flag("detect_negative", true);
  ask(call, [=](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

void logical_not(OpCall& call) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, DType::boolean, in.shape());
  map<bool, bool>(call, in, out, [](bool x) { return !x; });
}

void bitwise_not(OpCall& call) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_widths(in.dtype(), [&]<class T>() {
    if constexpr (std::is_unsigned_v<T>)
      map<T, T>(call, in, out, [](T x) { return static_cast<T>(~x); });
  });
}

constexpr Op kUnaryOps[] = {
    {"Abs", 1, kNumbers, number<Abs>},
    {"Acos", 7, kReals, real<Acos>},
    {"Acosh", 9, kReals, real<Acosh>},
    {"Asin", 7, kReals, real<Asin>},
    {"Asinh", 9, kReals, real<Asinh>},
    {"Atan", 7, kReals, real<Atan>},
    {"Atanh", 9, kReals, real<Atanh>},
    {"BitwiseNot", 18, kIntegers, bitwise_not},
    {"Ceil", 1, kReals, real<Ceil>},
    {"Cos", 7, kReals, real<Cos>},
    {"Cosh", 9, kReals, real<Cosh>},
    {"Erf", 9, kNumbers, number<Erf>},
    {"Exp", 1, kReals, real<Exp>},
    {"Floor", 1, kReals, real<Floor>},
    {"IsInf", 10, kReals | kTinyFloats, is_inf},
    {"IsNaN", 9, kReals | kTinyFloats, is_nan},
    {"Log", 1, kReals, real<Log>},
    {"Neg", 1, kNumbers, number<Neg>},
    {"Not", 1, {DType::boolean}, logical_not},
    {"Reciprocal", 1, kReals, real<Reciprocal>},
    {"Round", 11, kReals, real<Round>},
    {"Sign", 9, kNumbers, number<Sign>},
    {"Sin", 7, kReals, real<Sin>},
    {"Sinh", 9, kReals, real<Sinh>},
    {"Sqrt", 1, kReals, real<Sqrt>},
    {"Tan", 7, kReals, real<Tan>},
    {"Tanh", 1, kReals, real<Tanh>},
};

}  // namespace

std::span<const Op> unary_ops() { return kUnaryOps; }

}  // namespace sluice::engine
