// The value type of the rules on the CPU: values of many segments, one in each lane of some
// vectors. Included once per instruction set.
#include <hwy/highway.h>

#include "market/indicators/rules/scalar_value-inl.h"

#if defined(SLUICE_MARKET_SIMD_VALUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_SIMD_VALUE_INL_H_
#undef SLUICE_MARKET_SIMD_VALUE_INL_H_
#else
#define SLUICE_MARKET_SIMD_VALUE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using Vec = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// n vectors, as members and not as an array: the compiler keeps them in registers.
template <int n>
struct Vectors {
  Vectors<n / 2> a, b;
};
template <>
struct Vectors<1> {
  Vec a;
};

template <class Op, int n, class... More>
HWY_INLINE Vectors<n> map(Vectors<n> x, More... y) {
  if constexpr (n == 1)
    return {Op::of(x.a, y.a...)};
  else
    return {map<Op>(x.a, y.a...), map<Op>(x.b, y.b...)};
}

template <int n>
HWY_INLINE Vectors<n> load_vectors(const double* from, int stride) {
  if constexpr (n == 1)
    return {hn::Load(D(), from)};
  else
    return {load_vectors<n / 2>(from, stride), load_vectors<n / 2>(from + n / 2 * stride, stride)};
}

template <int n>
HWY_INLINE void store_vectors(Vectors<n> x, double* to, int stride) {
  if constexpr (n == 1) {
    hn::Store(x.a, D(), to);
  } else {
    store_vectors(x.a, to, stride);
    store_vectors(x.b, to + n / 2 * stride, stride);
  }
}

// Bar i of n x kLanes segments, from register tiles.
template <int n>
HWY_INLINE Vectors<n> vectors_at(const Vec (*square)[kLanes], int i) {
  if constexpr (n == 1)
    return {square[0][i]};
  else
    return {vectors_at<n / 2>(square, i), vectors_at<n / 2>(square + n / 2, i)};
}

template <int n>
HWY_INLINE void put_vectors(Vectors<n> x, Vec (*square)[kLanes], int i) {
  if constexpr (n == 1) {
    square[0][i] = x.a;
  } else {
    put_vectors(x.a, square, i);
    put_vectors(x.b, square + n / 2, i);
  }
}

template <int n>
HWY_INLINE Vectors<n> fill_vectors(Vec x) {
  if constexpr (n == 1)
    return {x};
  else
    return {fill_vectors<n / 2>(x), fill_vectors<n / 2>(x)};
}

// Values of n x kLanes segments.
template <int n>
struct SimdValue {
  static constexpr int kWidth = n * kLanes;
  Vectors<n> v;

  SimdValue() = default;
  HWY_INLINE SimdValue(Vectors<n> x) : v(x) {}
  HWY_INLINE explicit SimdValue(double x) : v(fill_vectors<n>(hn::Set(D(), x))) {}
};

struct Add {
  static HWY_INLINE Vec of(Vec x, Vec y) { return hn::Add(x, y); }
};
struct Subtract {
  static HWY_INLINE Vec of(Vec x, Vec y) { return hn::Sub(x, y); }
};
struct Multiply {
  static HWY_INLINE Vec of(Vec x, Vec y) { return hn::Mul(x, y); }
};
struct Divide {
  static HWY_INLINE Vec of(Vec x, Vec y) { return hn::Div(x, y); }
};
// x y + z and z - x y, rounded once.
struct MultiplyAdd {
  static HWY_INLINE Vec of(Vec x, Vec y, Vec z) {
#if HWY_TARGET == HWY_SCALAR
    return Vec{std::fma(x.raw, y.raw, z.raw)};
#elif HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128
    HWY_ALIGN double a[kLanes], b[kLanes], c[kLanes];
    hn::Store(x, D(), a), hn::Store(y, D(), b), hn::Store(z, D(), c);
    for (int i = 0; i < kLanes; ++i) a[i] = std::fma(a[i], b[i], c[i]);
    return hn::Load(D(), a);
#else
    return hn::MulAdd(x, y, z);
#endif
  }
};
struct MultiplySubtract {
  static HWY_INLINE Vec of(Vec x, Vec y, Vec z) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128
    return MultiplyAdd::of(hn::Neg(x), y, z);
#else
    return hn::NegMulAdd(x, y, z);
#endif
  }
};
// The root of values that are not under `min_value`; 0 for others.
struct Root {
  static HWY_INLINE Vec of(Vec x, Vec min_value) {
#if HWY_TARGET == HWY_AVX3
    const __mmask8 counts = _mm512_cmp_pd_mask(x.raw, min_value.raw, _CMP_NLT_UQ);
    return Vec{_mm512_maskz_sqrt_pd(counts, x.raw)};
#else
    return hn::Sqrt(hn::IfThenZeroElse(hn::Lt(x, min_value), x));
#endif
  }
};
#if HWY_TARGET == HWY_AVX3
// Gives the bits of Root by multiplications. The unit for roots is busy for 24 cycles with a
// vector, so every other vector uses this algorithm. Two Newton iterations turn 14 bits into 53,
// give or take one. The last line adds the exact remainder, so that only a root within 2^-104 of
// the middle between two numbers could be rounded to the wrong one. A test tries all such numbers.
struct RootByNewton {
  static HWY_INLINE Vec of(Vec x, Vec min_value) {
    const hn::RebindToUnsigned<D> u;
    const Vec highest = hn::Set(D(), 0x1p500);
    const auto from = hn::BitCast(u, hn::Clamp(min_value, hn::Set(D(), 0x1p-500), highest));
    const auto past = hn::Sub(hn::BitCast(u, x), from);
    const auto range = hn::Sub(hn::BitCast(u, highest), from);
    if (HWY_UNLIKELY(!hn::AllTrue(u, hn::Lt(past, range)))) return Root::of(x, min_value);
    const Vec half = hn::Set(D(), 0.5), y{_mm512_rsqrt14_pd(x.raw)};
    Vec g = hn::Mul(x, y), h = hn::Mul(half, y);
    for (int i = 0; i < 2; ++i) {
      const Vec off = hn::NegMulAdd(g, h, half);
      g = hn::MulAdd(g, off, g);
      h = hn::MulAdd(h, off, h);
    }
    return hn::MulAdd(hn::NegMulAdd(g, g, x), h, g);
  }
};
#else
using RootByNewton = Root;
#endif
struct Magnitude {
  static HWY_INLINE Vec of(Vec x) { return hn::Abs(x); }
};
struct PickLess {
  static HWY_INLINE Vec of(Vec x, Vec y, Vec yes, Vec no) {
    return hn::IfThenElse(hn::Lt(x, y), yes, no);
  }
};
// x < y ? y : x, also for a NaN and signed zeros, as the instruction of x86 does.
struct Larger {
  static HWY_INLINE Vec of(Vec x, Vec y) {
    return HWY_ARCH_X86 ? hn::Max(y, x) : PickLess::of(x, y, y, x);
  }
};

template <int n>
HWY_INLINE SimdValue<n> operator+(SimdValue<n> x, SimdValue<n> y) {
  return map<Add>(x.v, y.v);
}
template <int n>
HWY_INLINE SimdValue<n> operator-(SimdValue<n> x, SimdValue<n> y) {
  return map<Subtract>(x.v, y.v);
}
template <int n>
HWY_INLINE SimdValue<n> operator*(SimdValue<n> x, SimdValue<n> y) {
  return map<Multiply>(x.v, y.v);
}
template <int n>
HWY_INLINE SimdValue<n> plus_product(SimdValue<n> z, SimdValue<n> x, SimdValue<n> y) {
  return map<MultiplyAdd>(x.v, y.v, z.v);
}
template <int n>
HWY_INLINE SimdValue<n> minus_product(SimdValue<n> z, SimdValue<n> x, SimdValue<n> y) {
  return map<MultiplySubtract>(x.v, y.v, z.v);
}
template <int n>
HWY_INLINE SimdValue<n> quotient(SimdValue<n> x, SimdValue<n> y) {
  return map<Divide>(x.v, y.v);
}
template <int n>
HWY_INLINE Vectors<n> root_vectors(Vectors<n> x, Vectors<n> min_value) {
  if constexpr (n == 1)
    return map<Root>(x, min_value);
  else if constexpr (n == 2)
    return {map<Root>(x.a, min_value.a), map<RootByNewton>(x.b, min_value.b)};
  else
    return {root_vectors<n / 2>(x.a, min_value.a), root_vectors<n / 2>(x.b, min_value.b)};
}
template <int n>
HWY_INLINE SimdValue<n> root_from(SimdValue<n> min_value, SimdValue<n> x) {
  return root_vectors<n>(x.v, min_value.v);
}
template <int n>
HWY_INLINE SimdValue<n> magnitude(SimdValue<n> x) {
  return map<Magnitude>(x.v);
}
template <int n>
HWY_INLINE SimdValue<n> pick_lt(SimdValue<n> x, SimdValue<n> y, SimdValue<n> yes, SimdValue<n> no) {
  return map<PickLess>(x.v, y.v, yes.v, no.v);
}
template <int n>
HWY_INLINE SimdValue<n> larger(SimdValue<n> x, SimdValue<n> y) {
  return map<Larger>(x.v, y.v);
}

// Loads and stores vectors whose addresses are aligned and `stride` apart.
template <class P>
HWY_INLINE P load_value(const double* from, int stride = kLanes) {
  return load_vectors<P::kWidth / kLanes>(from, stride);
}
template <int n>
HWY_INLINE void store_value(SimdValue<n> value, double* to, int stride = kLanes) {
  store_vectors(value.v, to, stride);
}

// ---- kLanes bars of kLanes segments ------------------------------------------------------

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose(Vec*) {}
#elif HWY_TARGET == HWY_AVX3
// Three rounds of shuffles of pairs, none of which overwrites its operands.
HWY_INLINE void transpose(Vec* v) {
  Vec even[4], odd[4];
  for (int i = 0; i < 4; ++i) {
    even[i] = hn::InterleaveLower(D(), v[2 * i], v[2 * i + 1]);
    odd[i] = hn::InterleaveUpper(D(), v[2 * i], v[2 * i + 1]);
  }
  const auto join = [](const Vec* half, Vec* to) {
    const __m512d a = half[0].raw, b = half[1].raw, e = half[2].raw, f = half[3].raw;
    const __m512d first = _mm512_shuffle_f64x2(a, b, 0x88), last = _mm512_shuffle_f64x2(e, f, 0x88);
    const __m512d third = _mm512_shuffle_f64x2(a, b, 0xDD), more = _mm512_shuffle_f64x2(e, f, 0xDD);
    to[0] = Vec{_mm512_shuffle_f64x2(first, last, 0x88)};
    to[2] = Vec{_mm512_shuffle_f64x2(third, more, 0x88)};
    to[4] = Vec{_mm512_shuffle_f64x2(first, last, 0xDD)};
    to[6] = Vec{_mm512_shuffle_f64x2(third, more, 0xDD)};
  };
  join(even, v);
  join(odd, v + 1);
}
#else
HWY_INLINE void transpose(Vec* v) {
  if constexpr (kLanes == 2) {
    const Vec a = v[0], b = v[1];
    v[0] = hn::InterleaveLower(D(), a, b);
    v[1] = hn::InterleaveUpper(D(), a, b);
  } else if constexpr (kLanes == 4) {
    const D d;
    const Vec a = hn::InterleaveLower(d, v[0], v[1]), b = hn::InterleaveUpper(d, v[0], v[1]);
    const Vec e = hn::InterleaveLower(d, v[2], v[3]), f = hn::InterleaveUpper(d, v[2], v[3]);
    v[0] = hn::ConcatLowerLower(d, e, a);
    v[1] = hn::ConcatLowerLower(d, f, b);
    v[2] = hn::ConcatUpperUpper(d, e, a);
    v[3] = hn::ConcatUpperUpper(d, f, b);
  }
}
#endif

HWY_INLINE Vec load_bars(const double* from) { return hn::LoadU(D(), from); }
HWY_INLINE Vec load_bars(const float* from) {
  const hn::Rebind<float, D> narrow;
  return hn::PromoteTo(D(), hn::LoadU(narrow, from));
}
HWY_INLINE void store_bars(Vec v, double* to) { hn::StoreU(v, D(), to); }
HWY_INLINE void store_bars(Vec v, float* to) {
  const hn::Rebind<float, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
}
// Bypasses the caches, so that the cache line is not read first. `to` is aligned.
HWY_INLINE void stream_bars(Vec v, double* to) { hn::Stream(v, D(), to); }
HWY_INLINE void stream_bars(Vec v, float* to) { store_bars(v, to); }

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
