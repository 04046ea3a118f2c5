// Binary arithmetic with broadcasting.
#include <cmath>

#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

struct Plus {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Minus {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Times {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Over {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      require(b != 0, "division of integers by zero");
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1))
          return static_cast<T>(std::make_unsigned_t<T>(0) -
                                static_cast<std::make_unsigned_t<T>>(a));
    }
    return static_cast<T>(a / b);
  }
};

// Integers wrap around, as in other runtimes.
template <class F, class W>
W apply(W a, W b) {
  if constexpr (std::is_integral_v<W> && std::is_signed_v<W> && !std::is_same_v<F, Over>) {
    using U = std::make_unsigned_t<W>;
    using P = std::common_type_t<U, unsigned>;
    return static_cast<W>(static_cast<U>(F::template of<P>(static_cast<U>(a), static_cast<U>(b))));
  } else {
    return F::template of<W>(a, b);
  }
}

template <class F>
void arithmetic(OpCall& call) {
  const Tensor& a = call.input(0);
  const Tensor b = second_input(call);
  require(a.dtype() == b.dtype(), "inputs of two element types");
  const Tensor out = call.output(0, a.dtype(), broadcast(a.shape(), b.shape()));
  visit_numbers(a.dtype(), [&]<class T>() {
    map2<T, T, T>(a, b, out, [](T x, T y) { return T(apply<F>(Wide<T>(x), Wide<T>(y))); });
  });
}

// Takes the sign of the dividend, as fmod does, or of the divisor for integers.
template <class T>
T remainder(T a, T b, bool fmod) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    require(b != 0, "division of integers by zero");
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return 0;
      const auto rest = static_cast<T>(a % b);
      return !fmod && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      return static_cast<T>(a % b);
    }
  }
}

void mod(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require(a.dtype() == b.dtype(), "inputs of two element types");
  const bool fmod = call.attributes().flag("fmod");
  require(fmod || is_integer(a.dtype()), "fmod must be 1 for floating-point elements");
  const Tensor out = call.output(0, a.dtype(), broadcast(a.shape(), b.shape()));
  visit_numbers(a.dtype(), [&]<class T>() {
    map2<T, T, T>(a, b, out, [fmod](T x, T y) { return T(remainder<Wide<T>>(x, y, fmod)); });
  });
}

// Integer power with wrap-around; for negative b, 1 / a^-b rounded toward zero.
template <class T>
T integer_power(T a, std::int64_t b) {
  using U = std::make_unsigned_t<T>;
  if (b < 0) {
    if (a == T(-1)) return b % 2 == 0 ? T(1) : T(-1);
    return a == T(1) ? T(1) : T(0);
  }
  U result = 1, base = static_cast<U>(a);
  for (; b > 0; b >>= 1, base *= base)
    if ((b & 1) != 0) result *= base;
  return static_cast<T>(result);
}

// The exponent may be of another type; the result is of the base's.
void pow(OpCall& call) {
  const Tensor& a = call.input(0);
  const Tensor b = second_input(call);
  const Tensor out = call.output(0, a.dtype(), broadcast(a.shape(), b.shape()));
  const bool integers = is_integer(a.dtype()) && is_integer(b.dtype());
  const Tensor exponent = converted(b, integers ? DType::i64 : DType::f64);
  visit_types<float, double, Half, BFloat16, std::int32_t, std::int64_t>(a.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      if (integers) return map2<T, std::int64_t, T>(a, exponent, out, integer_power<T>);
      map2<T, double, T>(a, exponent, out, [](T x, double y) {
        return static_cast<T>(to_integer(std::pow(static_cast<double>(x), y)));
      });
    } else {
      map2<T, double, T>(a, exponent, out, [](T x, double y) {
        return static_cast<T>(static_cast<Wide<T>>(std::pow(static_cast<double>(x), y)));
      });
    }
  });
}

// Bitwise operators.
template <class F>
void bitwise(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require(a.dtype() == b.dtype(), "inputs of two element types");
  const Tensor out = call.output(0, a.dtype(), broadcast(a.shape(), b.shape()));
  visit_widths(a.dtype(), [&]<class T>() {
    if constexpr (std::is_unsigned_v<T>)
      map2<T, T, T>(a, b, out, [](T x, T y) { return static_cast<T>(F::of(x, y)); });
  });
}

struct BitAnd {
  static auto of(auto a, auto b) { return a & b; }
};
struct BitOr {
  static auto of(auto a, auto b) { return a | b; }
};
struct BitXor {
  static auto of(auto a, auto b) { return a ^ b; }
};
struct ShiftLeft {
  template <class T>
  static T of(T a, T b) {
    return b < 8 * sizeof(T) ? static_cast<T>(static_cast<std::uint64_t>(a) << b) : T(0);
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, T b) {
    return b < 8 * sizeof(T) ? static_cast<T>(a >> b) : T(0);
  }
};

void bit_shift(OpCall& call) {
  const std::string direction = call.attributes().string("direction", "");
  if (direction == "LEFT") return bitwise<ShiftLeft>(call);
  require(direction == "RIGHT", "direction must be LEFT or RIGHT");
  bitwise<ShiftRight>(call);
}

constexpr Types kUnsigned{DType::u8, DType::u16, DType::u32, DType::u64};

constexpr Op kBinaryOps[] = {
    {"Add", 1, kNumbers, arithmetic<Plus>},
    {"Sub", 1, kNumbers, arithmetic<Minus>},
    {"Mul", 1, kNumbers, arithmetic<Times>},
    {"Div", 1, kNumbers, arithmetic<Over>},
    {"Mod", 10, kNumbers, mod},
    {"Pow", 1, kReals | Types{DType::i32, DType::i64}, pow},
    {"BitShift", 11, kUnsigned, bit_shift},
    {"BitwiseAnd", 18, kIntegers, bitwise<BitAnd>},
    {"BitwiseOr", 18, kIntegers, bitwise<BitOr>},
    {"BitwiseXor", 18, kIntegers, bitwise<BitXor>},
};

}  // namespace

std::span<const Op> binary_ops() { return kBinaryOps; }

}  // namespace sluice::engine
