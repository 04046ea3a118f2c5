// Limit: loads and stores, four for each pixel and channel in the input transform, about three in
// the output transform. Compiled for several instruction sets; dispatched at run time.
#include "kernels/conv/winograd.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/winograd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/common/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr auto kWide = static_cast<std::int64_t>(kLanes);

template <int kSide>
using Side = std::integral_constant<int, kSide>;

HWY_INLINE V number(double value) { return hn::Set(kFloats, static_cast<float>(value)); }

// The transform of one line of a tile, along either axis: d(i) reads position i, to(i, value)
// writes it.
template <class Read, class Write>
HWY_INLINE void input_transform_1d(Side<2>, const Read& d, const Write& to) {
  const V d0 = d(0), d1 = d(1), d2 = d(2), d3 = d(3);
  to(0, hn::Sub(d0, d2));
  to(1, hn::Add(d1, d2));
  to(2, hn::Sub(d2, d1));
  to(3, hn::Sub(d1, d3));
}

template <class Read, class Write>
HWY_INLINE void input_transform_1d(Side<4>, const Read& d, const Write& to) {
  static_assert(kNear * kFar > 0.999999 &&
                kNear * kFar < 1.000001);  // so one multiplication is left out
  const V near = number(kNear), far = number(kFar);
  const V near2 = number(kNear * kNear), far2 = number(kFar * kFar);
  const V both = number(kNear * kNear + kFar * kFar);
  const V d1 = d(1), d2 = d(2), d3 = d(3), d4 = d(4);
  to(0, hn::NegMulAdd(both, d2, hn::Add(d(0), d4)));
  const V even_near = hn::NegMulAdd(far2, d2, d4), odd_near = hn::NegMulAdd(far2, d1, d3);
  to(1, hn::MulAdd(near, odd_near, even_near));
  to(2, hn::NegMulAdd(near, odd_near, even_near));
  const V even_far = hn::NegMulAdd(near2, d2, d4), odd_far = hn::NegMulAdd(near2, d1, d3);
  to(3, hn::MulAdd(far, odd_far, even_far));
  to(4, hn::NegMulAdd(far, odd_far, even_far));
  to(5, hn::NegMulAdd(both, d3, hn::Add(d1, d(5))));
}

template <class Read, class Write>
HWY_INLINE void output_transform_1d(Side<2>, const Read& m, const Write& to) {
  const V m1 = m(1), m2 = m(2);
  to(0, hn::Add(m(0), hn::Add(m1, m2)));
  to(1, hn::Sub(hn::Sub(m1, m2), m(3)));
}

template <class Read, class Write>
HWY_INLINE void output_transform_1d(Side<4>, const Read& m, const Write& to) {
  const V near = number(kNear), far = number(kFar);
  const V near2 = number(kNear * kNear), far2 = number(kFar * kFar);
  const V near3 = number(kNear * kNear * kNear), far3 = number(kFar * kFar * kFar);
  const V m1 = m(1), m2 = m(2), m3 = m(3), m4 = m(4);
  const V sum_near = hn::Add(m1, m2), odd_near = hn::Sub(m1, m2);
  const V sum_far = hn::Add(m3, m4), odd_far = hn::Sub(m3, m4);
  to(0, hn::Add(m(0), hn::Add(sum_near, sum_far)));
  to(1, hn::MulAdd(near, odd_near, hn::Mul(far, odd_far)));
  to(2, hn::MulAdd(near2, sum_near, hn::Mul(far2, sum_far)));
  to(3, hn::MulAdd(near3, odd_near, hn::MulAdd(far3, odd_far, m(5))));
}

template <int kSide>
void input_transform(const float* const* pixels, std::int64_t channels, float* to,
                     std::int64_t stride) {
  constexpr int kPixels = kSide + 2;
  HWY_ALIGN float half[kPixels * kPixels * kLanes];  // transformed along one axis
  const auto value_at = [&](int row, int column) {
    return half + (row * kPixels + column) * kWide;
  };
  for (std::int64_t c = 0; c < channels; c += kWide, to += kWide) {
    for (int column = 0; column < kPixels; ++column)
      input_transform_1d(
          Side<kSide>(),
          [&](int i) { return hn::LoadU(kFloats, pixels[i * kPixels + column] + c); },
          [&](int i, V value) { hn::Store(value, kFloats, value_at(i, column)); });
    for (int row = 0; row < kPixels; ++row)
      input_transform_1d(
          Side<kSide>(), [&](int i) { return hn::Load(kFloats, value_at(row, i)); },
          [&](int i, V value) { hn::StoreU(value, kFloats, to + (row * kPixels + i) * stride); });
  }
}

// Clamping is always done; bounds are infinite where there are none.
struct Clamp {
  V low, high;
  bool has_activation;  // an activation that is not a clamp

  explicit Clamp(const ActivationParams& e)
      : low(hn::Set(kFloats, -std::numeric_limits<float>::infinity())),
        high(hn::Set(kFloats, std::numeric_limits<float>::infinity())),
        has_activation(false) {
    switch (e.activation) {
      case Activation::none: break;
      case Activation::relu: low = hn::Zero(kFloats); break;
      case Activation::clip: low = hn::Set(kFloats, e.low), high = hn::Set(kFloats, e.high); break;
      default: has_activation = true;
    }
  }
};

HWY_INLINE void store_result(const WinogradOutput& s, const Clamp& clamp, V sum, std::int64_t at) {
  if (s.residual != nullptr) sum = hn::Add(sum, hn::LoadU(kFloats, s.residual + at));
  sum = hn::Min(clamp.high, hn::Max(clamp.low, sum));
  if (clamp.has_activation) sum = Activate(kFloats, s.activation, sum);
  hn::StoreU(sum, kFloats, s.y + at);
}

template <int kSide>
void output_transform(const WinogradOutput& s) {
  constexpr int kPixels = kSide + 2;
  const Clamp clamp(s.activation);
  HWY_ALIGN float half[kSide * kPixels * kLanes];
  const auto value_at = [&](int row, int column) {
    return half + (row * kPixels + column) * kWide;
  };
  for (std::int64_t c = 0; c < s.channels; c += kWide) {
    const V bias = hn::LoadU(kFloats, s.bias + c);
    for (int column = 0; column < kPixels; ++column)
      output_transform_1d(
          Side<kSide>(),
          [&](int i) { return hn::LoadU(kFloats, s.from + (i * kPixels + column) * s.stride + c); },
          [&](int i, V value) { hn::Store(value, kFloats, value_at(i, column)); });
    for (int row = 0; row < s.rows; ++row)
      output_transform_1d(
          Side<kSide>(), [&](int i) { return hn::Load(kFloats, value_at(row, i)); },
          [&](int i, V value) {
            if (i < s.columns)
              store_result(s, clamp, hn::Add(value, bias), row * s.row + i * s.pixel + c);
          });
  }
}

void input_transform_any(int side, const float* const* pixels, std::int64_t channels, float* to,
                         std::int64_t stride) {
  side == 2 ? input_transform<2>(pixels, channels, to, stride)
            : input_transform<4>(pixels, channels, to, stride);
}
void output_transform_any(int side, const WinogradOutput& sums) {
  side == 2 ? output_transform<2>(sums) : output_transform<4>(sums);
}

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {

HWY_EXPORT(input_transform_any);
HWY_EXPORT(output_transform_any);

void winograd_input_transform(int side, const float* const* pixels, std::int64_t channels,
                              float* to, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(input_transform_any)(side, pixels, channels, to, stride);
}
void winograd_output_transform(int side, const WinogradOutput& sums) {
  HWY_DYNAMIC_DISPATCH(output_transform_any)(side, sums);
}

}  // namespace sluice::kernels::cpu
#endif
