// The values of many lines at once, one in each lane of some vectors: what rules compute
// with on the CPU. Included once per instruction set.
#include <hwy/highway.h>

#include "market/indicators/values-inl.h"

#if defined(SLUICE_MARKET_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_PACK_INL_H_
#undef SLUICE_MARKET_PACK_INL_H_
#else
#define SLUICE_MARKET_PACK_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using Vec = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = kLanes >= 8 ? 2 : 4;  // hides the latency of a rule's chain
constexpr int kPack = kLanes * kVectors;

// n vectors. Members, not an array: the compiler keeps them in registers.
template <int n>
struct Bundle {
  Bundle<n / 2> a, b;
};
template <>
struct Bundle<1> {
  Vec a;
};

template <class Op, int n, class... More>
HWY_INLINE Bundle<n> map(Bundle<n> x, More... y) {
  if constexpr (n == 1)
    return {Op::of(x.a, y.a...)};
  else
    return {map<Op>(x.a, y.a...), map<Op>(x.b, y.b...)};
}

template <int n>
HWY_INLINE Bundle<n> load_bundle(const double* from) {
  if constexpr (n == 1)
    return {hn::Load(D(), from)};
  else
    return {load_bundle<n / 2>(from), load_bundle<n / 2>(from + n / 2 * kLanes)};
}

template <int n>
HWY_INLINE void store_bundle(Bundle<n> x, double* to) {
  if constexpr (n == 1) {
    hn::Store(x.a, D(), to);
  } else {
    store_bundle(x.a, to);
    store_bundle(x.b, to + n / 2 * kLanes);
  }
}

template <int n>
HWY_INLINE Bundle<n> fill_bundle(Vec x) {
  if constexpr (n == 1)
    return {x};
  else
    return {fill_bundle<n / 2>(x), fill_bundle<n / 2>(x)};
}

struct Pack {
  Bundle<kVectors> v;

  Pack() = default;
  HWY_INLINE Pack(Bundle<kVectors> x) : v(x) {}
  HWY_INLINE explicit Pack(double x) : v(fill_bundle<kVectors>(hn::Set(D(), x))) {}
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
struct Root {
  static HWY_INLINE Vec of(Vec x) { return hn::Sqrt(x); }
};
struct Magnitude {
  static HWY_INLINE Vec of(Vec x) { return hn::Abs(x); }
};
struct PickLess {
  static HWY_INLINE Vec of(Vec x, Vec y, Vec yes, Vec no) {
    return hn::IfThenElse(hn::Lt(x, y), yes, no);
  }
};

HWY_INLINE Pack operator+(Pack x, Pack y) { return map<Add>(x.v, y.v); }
HWY_INLINE Pack operator-(Pack x, Pack y) { return map<Subtract>(x.v, y.v); }
HWY_INLINE Pack operator*(Pack x, Pack y) { return map<Multiply>(x.v, y.v); }
HWY_INLINE Pack quotient(Pack x, Pack y) { return map<Divide>(x.v, y.v); }
HWY_INLINE Pack root(Pack x) { return map<Root>(x.v); }
HWY_INLINE Pack magnitude(Pack x) { return map<Magnitude>(x.v); }
HWY_INLINE Pack pick_lt(Pack x, Pack y, Pack yes, Pack no) {
  return map<PickLess>(x.v, y.v, yes.v, no.v);
}

// Lines side by side in memory, aligned.
HWY_INLINE Pack load_pack(const double* from) { return load_bundle<kVectors>(from); }
HWY_INLINE void store_pack(Pack pack, double* to) { store_bundle(pack.v, to); }

// ---- kLanes bars of kLanes lines ------------------------------------------------------

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose(Vec*) {}
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
  } else if constexpr (kLanes > 4) {
    for (int round = 1; round < kLanes; round *= 2) {
      Vec next[kLanes];
      for (int i = 0; i < kLanes / 2; ++i) {
        next[i] = hn::ConcatEven(D(), v[2 * i + 1], v[2 * i]);
        next[i + kLanes / 2] = hn::ConcatOdd(D(), v[2 * i + 1], v[2 * i]);
      }
      for (int i = 0; i < kLanes; ++i) v[i] = next[i];
    }
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
// Past the caches: the line is not read first. `to` is aligned.
HWY_INLINE void stream_bars(Vec v, double* to) { hn::Stream(v, D(), to); }
HWY_INLINE void stream_bars(Vec v, float* to) { store_bars(v, to); }

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
