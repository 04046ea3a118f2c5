// exp, log of a ratio and the normal tail without branches, so that a loop over them
// becomes vector code on a CPU and straight code on a GPU. The few steps that machines do
// differently (division, root, sign) come from M: HostMath here, DeviceMath in the .cuh.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "compute/hd.h"

#define SLUICE_FLAT SLUICE_HD [[gnu::always_inline]] inline

namespace sluice::market::fast {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
SLUICE_FLAT Bits<T> bits(T x) {
  return __builtin_bit_cast(Bits<T>, x);
}
template <class T>
SLUICE_FLAT T from_bits(Bits<T> x) {
  return __builtin_bit_cast(T, x);
}
// The sign bit is set where x is infinite or no number: an exponent of ones carries into it.
template <class T>
SLUICE_FLAT Bits<T> not_finite(T x) {
  constexpr Bits<T> kSize = ~Bits<T>(0) >> 1, kExponentOne = Bits<T>(1)
                                                             << (sizeof(T) == 8 ? 52 : 23);
  return (bits(x) & kSize) + kExponentOne;
}

// Minimax coefficients, highest power first. exp: of (e^r - 1 - r) / r^2 on |r| <= ln2/2,
// relative error of e^r 2.9e-16 and 3.1e-9. log: of (log((1+s)/(1-s)) - 2s) / s^3 in s^2
// <= 0.0403, relative 1.6e-17 and 2.9e-9. tail: of R(x) (x + a) in (x-a)/(x+a), where R(x)
// = e^(x^2/2) Phi(-x): error of Phi 4e-17 and 2e-9, relative 4e-13 and 8e-8 far out.
template <class T, int kCount>
struct Terms {
  T c[kCount];
};

template <class T>
struct Poly;

template <>
struct Poly<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds
  static constexpr double kInteger = 4503599627370496.0;
  static constexpr double kLn2Hi = 0x1.62e42fefa0000p-1, kLn2Lo = 0x1.cf79abc9e3b3ap-40;
  static constexpr double kMaxExp = 708;
  static constexpr double kFarOut = 37.6, kTiny = 1e-290, kTailShift = 5;
  static constexpr double kMinPrice = 1e-150;
  SLUICE_HD static constexpr Terms<double, 9> exp() {
    return {{2.7476726987446306e-07, 2.763501314522495e-06, 2.4801932042449027e-05,
             0.00019841185184720338, 0.001388888851577645, 0.008333333370907076,
             0.04166666666813877, 0.16666666666611474, 0.49999999999998324}};
  }

  SLUICE_HD static constexpr Terms<double, 7> log() {
    return {{0.15384877303739541, 0.15248036568440543, 0.18186463972030667, 0.22222135857769185,
             0.28571429427785167, 0.3999999999597973, 0.6666666666667305}};
  }

  SLUICE_HD static constexpr Terms<double, 18> tail() {
    return {{9.084712442899902e-08, 3.219279870499917e-07, -4.993437037793991e-07,
             -2.723542655390751e-06, 4.162059432645492e-06, 1.672083673748681e-05,
             -4.985820327335538e-05, -5.9423727573926125e-05, 0.0005449226361015307,
             -0.000797849538046919, -0.002993378310142912, 0.02079506292237744,
             -0.06911863908661409, 0.1650203665100744, -0.3135331566073973, 0.4953056159602192,
             -0.6653825028923336, 0.7691930497500742}};
  }
};

template <>
struct Poly<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRound = 12582912.0f, kInteger = 8388608.0f;
  static constexpr float kLn2Hi = 0.693145752f, kLn2Lo = 1.42860677e-6f;
  static constexpr float kMaxExp = 87;
  static constexpr float kFarOut = 13.1f, kTiny = 1e-30f, kTailShift = 3;
  static constexpr float kMinPrice = 1e-25f;
  SLUICE_HD static constexpr Terms<float, 5> exp() {
    return {{0.0013814544366409205f, 0.008368721775800574f, 0.04166838916810443f,
             0.16666520579042715f, 0.4999999344226747f}};
  }

  SLUICE_HD static constexpr Terms<float, 3> log() {
    return {{0.30374740504599745f, 0.3995716311178355f, 0.6666695396986099f}};
  }

  SLUICE_HD static constexpr Terms<float, 9> tail() {
    return {{-0.0002915442991487587f, -0.0009331379611416057f, 0.0010937490938814094f,
             0.006948290039875023f, -0.010484617234834544f, -0.04726203015001888f,
             0.23001998933191975f, -0.5093319067895143f, 0.7290836411859398f}};
  }
};

// Tables: where the coefficients come from. A NaN is not `negative`, and at_least keeps it;
// within may not on a GPU, so that what it is given must reach the result on another path, too.
struct HostMath {
  template <class T>
  using Tables = Poly<T>;
  template <class T>
  [[gnu::always_inline]] static T at_least(T x, T lower) {
    return x < lower ? lower : x;
  }
  template <class T>
  [[gnu::always_inline]] static T within(T x, T limit) {
    x = x < -limit ? -limit : x;
    return x > limit ? limit : x;
  }
  template <class T>
  [[gnu::always_inline]] static T reciprocal(T x) {
    return T(1) / x;
  }
  template <class T>
  [[gnu::always_inline]] static T sqrt(T x) {
    return std::sqrt(x);
  }
  template <class T>
  [[gnu::always_inline]] static bool negative(T x) {
    return x < 0;
  }
};

// Unrolled by recursion: a loop is not always, and then its table is in memory.
template <int kFrom = 0, class T, int kCount>
SLUICE_FLAT T horner(const Terms<T, kCount>& terms, T x, T sum = 0) {
  sum = kFrom == 0 ? terms.c[0] : std::fma(sum, x, terms.c[kFrom]);
  if constexpr (kFrom == kCount - 1) {
    return sum;
  } else {
    return horner<kFrom + 1>(terms, x, sum);
  }
}

// e^x for x whose result is a normal number.
template <class M, class T>
SLUICE_FLAT T exp_within(T x) {
  using P = Poly<T>;
  const T shifted = std::fma(x, T(1.4426950408889634), P::kRound);
  const T n = shifted - P::kRound;
  const T r = std::fma(n, -P::kLn2Lo, std::fma(n, -P::kLn2Hi, x));
  const T p = std::fma(std::fma(horner(M::template Tables<T>::exp(), r), r, T(1)), r, T(1));
  return from_bits<T>(bits(p) + (bits(shifted) << P::kMantissa));
}

// The same for any x, taken into that range first.
template <class M, class T>
SLUICE_FLAT T exp(T x) {
  return exp_within<M>(M::within(x, Poly<T>::kMaxExp));
}

// log(a / b) of positive normal numbers, with one division.
template <class M, class T>
SLUICE_FLAT T log_ratio(T a, T b) {
  using P = Poly<T>;
  constexpr Bits<T> one = Bits<T>(P::kBias) << P::kMantissa;
  constexpr Bits<T> exponent_field = Bits<T>(2 * P::kBias + 1) << P::kMantissa;
  // The bits of a positive number grow almost like its logarithm: their difference,
  // rounded to an integer exponent, leaves a ratio within 2^+-0.586.
  const Bits<T> ratio = bits(a) - bits(b) + one + (Bits<T>(1) << (P::kMantissa - 1));
  const Bits<T> power = ratio & exponent_field;
  const T near = b * from_bits<T>(power);
  const T e = from_bits<T>((power >> P::kMantissa) | bits(P::kInteger)) - (P::kInteger + P::kBias);
  const T s = (a - near) * M::reciprocal(a + near);
  const T s2 = s * s;
  const T p = horner(M::template Tables<T>::log(), s2);
  return std::fma(e, P::kLn2Hi, std::fma(s * s2, p, std::fma(e, P::kLn2Lo, s + s)));
}

// R(x) = Phi(-x) e^(x^2/2) for x >= 0.
template <class M, class T>
SLUICE_FLAT T scaled_tail(T x) {
  using P = Poly<T>;
  const T u = M::reciprocal(x + P::kTailShift);
  const T t = std::fma(T(-2) * P::kTailShift, u, T(1));
  return horner(M::template Tables<T>::tail(), t) * u;
}

template <class T>
struct Normal {
  T below, above;  // Phi(x), Phi(-x), each to its own full accuracy
  T bell;          // e^(-x^2/2)
};

template <class M, class T>
SLUICE_FLAT Normal<T> normal(T x) {
  const T size = std::fabs(x);
  const T near = size > Poly<T>::kFarOut ? Poly<T>::kFarOut : size;  // keeps a NaN
  const T bell = exp_within<M>(T(-0.5) * near * near);
  const T tail = bell * scaled_tail<M>(near);
  const T rest = T(1) - tail;
  const bool left = M::negative(x);
  return {left ? tail : rest, left ? rest : tail, bell};
}

}  // namespace sluice::market::fast
