// Math functions of float vectors, for sources that are compiled once for each instruction set:
// include it after <hwy/highway.h> in a file that foreach_target.h includes again.
//
// Errors are the largest over floats of all magnitudes (math_test.cc); with FMA they are smaller.
// NaN gives NaN, except with HWY_SCALAR. Rational functions have positive coefficients only, which
// avoids cancellation.
#include <hwy/highway.h>

#include "kernels/common/activation_params.h"

#if defined(SLUICE_KERNELS_COMMON_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_COMMON_MATH_INL_H_
#undef SLUICE_KERNELS_COMMON_MATH_INL_H_
#else
#define SLUICE_KERNELS_COMMON_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Horner's scheme; `sum` is the coefficient of the highest power.
template <class D, class V, class... More>
HWY_INLINE V PolynomialFrom(D d, V x, V sum, float next, More... more) {
  sum = hn::MulAdd(sum, x, hn::Set(d, next));
  if constexpr (sizeof...(more) == 0)
    return sum;
  else
    return PolynomialFrom(d, x, sum, more...);
}

// At most 2 ulp; 0 where the result is below 2^-125.5, infinity above the largest float.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  // Twice e^r, so that 2^(n - 1) is a float for the largest n, and 0 for the smallest.
  x = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -87.3365448f), x));
  const auto shift = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  const V twice =
      PolynomialFrom(d, r, hn::Set(d, 2 * 0.001383579376f), 2 * 0.008375645108f, 2 * 0.04166828892f,
                     2 * 0.1666641024f, 2 * 0.4999999159f, 2 * 1.000000039f, 2 * 1.000000001f);
  const hn::RebindToSigned<D> di;
  const auto bits = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, 126 << 23));
  return hn::Mul(twice, hn::BitCast(d, bits));
}

// At most 3.5e-7 off; exactly 1 or -1 from 3.92 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  x = hn::Min(hn::Set(d, 3.92f), hn::Max(hn::Set(d, -3.92f), x));
  const V t = hn::Mul(x, x);
  const V above = PolynomialFrom(d, t, hn::Set(d, 2.050086971e-6f), 0.0002848836211f,
                                 0.003765642657f, 0.05274880236f, 0.1904070232f, 1.128379146f);
  const V below = PolynomialFrom(d, t, hn::Set(d, 3.809175908e-5f), 0.001162542361f, 0.01496926737f,
                                 0.114109347f, 0.5020765715f, 1.0f);
  const V ratio = hn::Div(hn::Mul(x, above), below);
  return hn::Min(hn::Set(d, 1.0f), hn::Max(hn::Set(d, -1.0f), ratio));
}

// At most 6 ulp; exactly 1 or -1 from 8.9 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  x = hn::Min(hn::Set(d, 8.9f), hn::Max(hn::Set(d, -8.9f), x));
  const V t = hn::Mul(x, x);
  const V above = PolynomialFrom(d, t, hn::Set(d, 1.333674177e-8f), 2.059619023e-5f,
                                 0.003494805649f, 0.1338036693f, 0.9999999792f);
  const V below = PolynomialFrom(d, t, hn::Set(d, 7.769237455e-7f), 0.0003284354621f,
                                 0.02587400585f, 0.4671368234f, 1.0f);
  const V ratio = hn::Div(hn::Mul(x, above), below);
  return hn::Min(hn::Set(d, 1.0f), hn::Max(hn::Set(d, -1.0f), ratio));
}

// At most 3 ulp; 0 below -88.7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// x * P(X <= x) of a normal X; at most 2.5e-7 * max(1, |x|) off.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  return hn::Mul(x, hn::MulAdd(Erf(d, hn::Mul(x, hn::Set(d, 0.707106781f))), half, half));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  const V inside = hn::Mul(
      x, hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.797884561f * 0.044715f), hn::Set(d, 0.797884561f)));
  return hn::Mul(x, hn::MulAdd(Tanh(d, inside), half, half));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V HardSwish(D d, V x) {
  const V gate = hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
  return hn::Mul(x, hn::Min(hn::Set(d, 1.0f), hn::Max(hn::Zero(d), gate)));
}

// Epilogue::operator() for vectors.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Activate(D d, const ActivationParams& activation, V x) {
  switch (activation.activation) {
    case Activation::none: return x;
    case Activation::relu: return hn::Max(hn::Zero(d), x);
    case Activation::gelu: return Gelu(d, x);
    case Activation::gelu_tanh: return GeluTanh(d, x);
    case Activation::tanh: return Tanh(d, x);
    case Activation::sigmoid: return Sigmoid(d, x);
    case Activation::silu: return hn::Mul(x, Sigmoid(d, x));
    case Activation::hard_swish: return HardSwish(d, x);
    case Activation::clip:
      return hn::Min(hn::Set(d, activation.high), hn::Max(hn::Set(d, activation.low), x));
  }
  return x;
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
