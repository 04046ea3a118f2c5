// Limit: loads, one for each value in a window. With common kernels several results of a row are
// computed at once where their windows are inside the image: they share weights and most of their
// inputs, so that FMAs are the limit. Compiled for several instruction sets; dispatched at run
// time.
#include "kernels/conv/channelwise_cpu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/common/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/channelwise_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/lanes-inl.h"
#include "kernels/common/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

// Loads and stores a vector of channels; of a pixel's last vector only some lanes are in memory.
struct FullVector {
  HWY_INLINE V load(const float* from) const { return hn::LoadU(D(), from); }
  HWY_INLINE void store(V value, float* to) const { hn::StoreU(value, D(), to); }
};
struct PartialVector {
  std::size_t count;
  HWY_INLINE V load(const float* from) const {
    HWY_ALIGN float lanes[kLanes] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void store(V value, float* to) const {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(value, D(), lanes);
    std::memcpy(to, lanes, count * sizeof(float));
  }
};

// The kernel positions of one result that are inside the image: [top, bottom) x [left, right).
struct KernelRange {
  const float* from;  // the pixel of position (0, 0), which may be outside
  std::int64_t row_step, column_step;
  std::int64_t top, bottom, left, right;

  std::int64_t count() const {
    return std::max<std::int64_t>(0, bottom - top) * std::max<std::int64_t>(0, right - left);
  }
};

struct DepthwiseSum {
  const ChannelWise& what;
  std::int64_t columns, channels;
  const float* residual;  // of this pixel; null: none

  template <class Part>
  HWY_INLINE V begin(const Part& part, std::int64_t channel) const {
    const V bias = part.load(what.bias + channel);
    return residual == nullptr ? bias : hn::Add(bias, part.load(residual + channel));
  }
  template <class Part>
  HWY_INLINE V add(const Part& part, V sum, V x, std::int64_t position,
                   std::int64_t channel) const {
    return hn::MulAdd(x, part.load(what.weights + position * channels + channel), sum);
  }
  HWY_INLINE V end(V sum) const { return Activate(D(), what.activation, sum); }
};

// NaN propagates.
struct MaxOf {
  template <class Part>
  HWY_INLINE V begin(const Part&, std::int64_t) const {
    return hn::Set(D(), -std::numeric_limits<float>::infinity());
  }
  template <class Part>
  HWY_INLINE V add(const Part&, V max, V x, std::int64_t, std::int64_t) const {
    return hn::IfThenElse(hn::Or(hn::Gt(x, max), hn::IsNaN(x)), x, max);
  }
  HWY_INLINE V end(V max) const { return max; }
};

struct MeanOf {
  float count;

  template <class Part>
  HWY_INLINE V begin(const Part&, std::int64_t) const {
    return hn::Zero(D());
  }
  template <class Part>
  HWY_INLINE V add(const Part&, V sum, V x, std::int64_t, std::int64_t) const {
    return hn::Add(sum, x);
  }
  HWY_INLINE V end(V sum) const { return hn::Div(sum, hn::Set(D(), count)); }
};

// kVectors vectors of channels of one result.
template <int kVectors, class Part, class Of>
HWY_INLINE void some_channels(const Part& part, const Of& of, const KernelRange& range,
                              std::int64_t columns, std::int64_t channel, float* y) {
  V sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = of.begin(part, channel + i * kLanes);
  for (std::int64_t r = range.top; r < range.bottom; ++r)
    for (std::int64_t c = range.left; c < range.right; ++c) {
      const float* const x = range.from + r * range.row_step + c * range.column_step + channel;
      for (int i = 0; i < kVectors; ++i)
        sums[i] =
            of.add(part, sums[i], part.load(x + i * kLanes), r * columns + c, channel + i * kLanes);
    }
  for (int i = 0; i < kVectors; ++i) part.store(of.end(sums[i]), y + channel + i * kLanes);
}

template <class Of>
HWY_INLINE void one_result(const Of& of, const KernelRange& range, const ImageWindow& window,
                           float* y) {
  const std::int64_t columns = window.wide.kernel, channels = window.channels;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= channels; i += 4 * kLanes)
    some_channels<4>(FullVector(), of, range, columns, i, y);
  for (; i + kLanes <= channels; i += kLanes)
    some_channels<1>(FullVector(), of, range, columns, i, y);
  if (i < channels)
    some_channels<1>(PartialVector{static_cast<std::size_t>(channels - i)}, of, range, columns, i,
                     y);
}

// Results that are computed at once; their sums stay in registers.
constexpr int kResultsAtOnce = 4;

template <int N>
using Upto = std::make_integer_sequence<int, N>;

template <int kKernel, int kPosition>
HWY_INLINE V add_if_inside(V sum, V x, const V (&weights)[kKernel]) {
  if constexpr (kPosition >= 0 && kPosition < kKernel)
    return hn::MulAdd(x, weights[kPosition], sum);
  else
    return sum;
}

// Adds input column J to the results I whose windows contain it.
template <int kKernel, int kStride, int J, int... I>
HWY_INLINE void add_column(V (&sums)[kResultsAtOnce], V x, const V (&weights)[kKernel],
                           std::integer_sequence<int, I...>) {
  ((sums[I] = add_if_inside<kKernel, J - I * kStride>(sums[I], x, weights)), ...);
}

template <int kKernel, int kStride, class Part, int... J, int... C>
HWY_INLINE void add_line(V (&sums)[kResultsAtOnce], const Part& part, const float* x,
                         const float* weights, std::int64_t channels,
                         std::integer_sequence<int, J...>, std::integer_sequence<int, C...>) {
  const V all[] = {part.load(weights + C * channels)...};
  (add_column<kKernel, kStride, J>(sums, part.load(x + J * channels), all, Upto<kResultsAtOnce>()),
   ...);
}

// One vector of channels of kResultsAtOnce neighbouring results.
template <int kKernel, int kStride, class Part>
HWY_INLINE void some_results(const Part& part, const DepthwiseSum& of, const KernelRange& range,
                             std::int64_t channel, float* y) {
  const std::int64_t channels = of.channels;
  V sums[kResultsAtOnce];
  const V bias = part.load(of.what.bias + channel);
  for (V& sum : sums) sum = bias;
  if (of.residual != nullptr)
    for (int i = 0; i < kResultsAtOnce; ++i)
      sums[i] = hn::Add(sums[i], part.load(of.residual + i * channels + channel));
  for (std::int64_t r = range.top; r < range.bottom; ++r)
    add_line<kKernel, kStride>(sums, part, range.from + r * range.row_step + channel,
                               of.what.weights + r * kKernel * channels + channel, channels,
                               Upto<(kResultsAtOnce - 1) * kStride + kKernel>(), Upto<kKernel>());
  for (int i = 0; i < kResultsAtOnce; ++i) part.store(of.end(sums[i]), y + i * channels + channel);
}

template <int kKernel, int kStride>
void results_at_once(const DepthwiseSum& of, const KernelRange& range, float* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= of.channels; i += kLanes)
    some_results<kKernel, kStride>(FullVector(), of, range, i, y);
  if (i < of.channels)
    some_results<kKernel, kStride>(PartialVector{static_cast<std::size_t>(of.channels - i)}, of,
                                   range, i, y);
}

using Unrolled = void (*)(const DepthwiseSum&, const KernelRange&, float*);

// The unrolled function for this kernel and stride; null: there is none.
Unrolled unrolled_for(const ChannelWise& what) {
  const Window::Axis& wide = what.window.wide;
  if (what.kind != ChannelWise::Kind::depthwise || wide.dilation != 1) return nullptr;
  if (wide.kernel == 3 && wide.stride == 1) return results_at_once<3, 1>;
  if (wide.kernel == 3 && wide.stride == 2) return results_at_once<3, 2>;
  if (wide.kernel == 5 && wide.stride == 1) return results_at_once<5, 1>;
  if (wide.kernel == 5 && wide.stride == 2) return results_at_once<5, 2>;
  return nullptr;
}

void one_result_of(const ChannelWise& what, const DepthwiseSum& depthwise, const KernelRange& range,
                   float* y) {
  const ImageWindow& w = what.window;
  const std::int64_t count = what.counts_padding ? w.high.kernel * w.wide.kernel : range.count();
  switch (what.kind) {
    case ChannelWise::Kind::depthwise: return one_result(depthwise, range, w, y);
    case ChannelWise::Kind::max_pool: return one_result(MaxOf(), range, w, y);
    case ChannelWise::Kind::average_pool:
      return one_result(MeanOf{static_cast<float>(count)}, range, w, y);
  }
}

void one_row(const ChannelWise& what, std::int64_t row, const float* x, const float* residual,
             float* y) {
  const ImageWindow& w = what.window;
  const Unrolled unrolled = unrolled_for(what);
  const std::int64_t image = row / w.high.out, down = w.high.start(row % w.high.out);
  KernelRange range{.from = nullptr,
                    .row_step = w.high.dilation * w.wide.in * w.channels,
                    .column_step = w.wide.dilation * w.channels,
                    .top = w.high.first(down),
                    .bottom = w.high.last(down),
                    .left = 0,
                    .right = 0};
  for (std::int64_t column = 0; column < w.wide.out;) {
    const std::int64_t across = w.wide.start(column), at = (row * w.wide.out + column) * w.channels;
    range.from = x + ((image * w.high.in + down) * w.wide.in + across) * w.channels;
    range.left = w.wide.first(across);
    range.right = w.wide.last(across);
    const DepthwiseSum depthwise{what, w.wide.kernel, w.channels,
                                 residual == nullptr ? nullptr : residual + at};
    const std::int64_t end = column + kResultsAtOnce;
    if (unrolled != nullptr && across >= 0 && end <= w.wide.out &&
        w.wide.start(end - 1) + w.wide.kernel <= w.wide.in) {
      unrolled(depthwise, range, y + at);
      column = end;
    } else {
      one_result_of(what, depthwise, range, y + at);
      ++column;
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {
namespace {

HWY_EXPORT(one_row);

}  // namespace

void run(const ChannelWise& what, std::int64_t row, const float* x, const float* residual,
         float* y) {
  HWY_DYNAMIC_DISPATCH(one_row)(what, row, x, residual, y);
}

}  // namespace sluice::kernels::cpu
#endif
