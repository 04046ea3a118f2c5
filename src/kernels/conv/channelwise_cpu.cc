// Limit: loads, one for each value a result sees. Several results of a row are made together
// where a common kernel fits inside the image: they share weights and most of what they see, so
// that multiply-adds are the limit. Compiled for each instruction set that makes a difference;
// picked at run time.
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

#include "kernels/common/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// A vector, of which only some lanes are in memory where it is the last of a pixel.
struct Whole {
  HWY_INLINE V load(const float* from) const { return hn::LoadU(D(), from); }
  HWY_INLINE void store(V value, float* to) const { hn::StoreU(value, D(), to); }
};
struct Some {
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

// What one result sees: places [first, last) of the kernel along both axes.
struct Seen {
  const float* from;  // the place (0, 0), which may lie outside
  std::int64_t row_step, column_step;
  std::int64_t top, bottom, left, right;

  std::int64_t count() const {
    return std::max<std::int64_t>(0, bottom - top) * std::max<std::int64_t>(0, right - left);
  }
};

struct Products {
  const ChannelWise& what;
  std::int64_t columns, channels;
  const float* residual;  // of this pixel; null: none

  template <class Part>
  HWY_INLINE V begin(const Part& part, std::int64_t channel) const {
    const V bias = part.load(what.bias + channel);
    return residual == nullptr ? bias : hn::Add(bias, part.load(residual + channel));
  }
  template <class Part>
  HWY_INLINE V add(const Part& part, V sum, V x, std::int64_t place, std::int64_t channel) const {
    return hn::MulAdd(x, part.load(what.weights + place * channels + channel), sum);
  }
  HWY_INLINE V end(V sum) const { return Activate(D(), what.epilogue, sum); }
};

// A NaN stays.
struct Largest {
  template <class Part>
  HWY_INLINE V begin(const Part&, std::int64_t) const {
    return hn::Set(D(), -std::numeric_limits<float>::infinity());
  }
  template <class Part>
  HWY_INLINE V add(const Part&, V most, V x, std::int64_t, std::int64_t) const {
    return hn::IfThenElse(hn::Or(hn::Gt(x, most), hn::IsNaN(x)), x, most);
  }
  HWY_INLINE V end(V most) const { return most; }
};

struct Mean {
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

// kVectors of channels of one result.
template <int kVectors, class Part, class Of>
HWY_INLINE void some_channels(const Part& part, const Of& of, const Seen& seen,
                              std::int64_t columns, std::int64_t channel, float* y) {
  V sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = of.begin(part, channel + i * kLanes);
  for (std::int64_t r = seen.top; r < seen.bottom; ++r)
    for (std::int64_t c = seen.left; c < seen.right; ++c) {
      const float* const x = seen.from + r * seen.row_step + c * seen.column_step + channel;
      for (int i = 0; i < kVectors; ++i)
        sums[i] =
            of.add(part, sums[i], part.load(x + i * kLanes), r * columns + c, channel + i * kLanes);
    }
  for (int i = 0; i < kVectors; ++i) part.store(of.end(sums[i]), y + channel + i * kLanes);
}

template <class Of>
HWY_INLINE void one_result(const Of& of, const Seen& seen, const ImageWindow& window, float* y) {
  const std::int64_t columns = window.wide.kernel, channels = window.channels;
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= channels; i += 4 * kLanes)
    some_channels<4>(Whole(), of, seen, columns, i, y);
  for (; i + kLanes <= channels; i += kLanes) some_channels<1>(Whole(), of, seen, columns, i, y);
  if (i < channels)
    some_channels<1>(Some{static_cast<std::size_t>(channels - i)}, of, seen, columns, i, y);
}

// Results that are made together: their sums stay in registers.
constexpr int kTogether = 4;

template <int N>
using Upto = std::make_integer_sequence<int, N>;

template <int kKernel, int kPlace>
HWY_INLINE V add_if_seen(V sum, V x, const V (&weights)[kKernel]) {
  if constexpr (kPlace >= 0 && kPlace < kKernel)
    return hn::MulAdd(x, weights[kPlace], sum);
  else
    return sum;
}

// Column J of those that results I see.
template <int kKernel, int kStride, int J, int... I>
HWY_INLINE void add_column(V (&sums)[kTogether], V x, const V (&weights)[kKernel],
                           std::integer_sequence<int, I...>) {
  ((sums[I] = add_if_seen<kKernel, J - I * kStride>(sums[I], x, weights)), ...);
}

template <int kKernel, int kStride, class Part, int... J, int... C>
HWY_INLINE void add_line(V (&sums)[kTogether], const Part& part, const float* x,
                         const float* weights, std::int64_t channels,
                         std::integer_sequence<int, J...>, std::integer_sequence<int, C...>) {
  const V all[] = {part.load(weights + C * channels)...};
  (add_column<kKernel, kStride, J>(sums, part.load(x + J * channels), all, Upto<kTogether>()), ...);
}

// One vector of channels, kTogether results beside each other.
template <int kKernel, int kStride, class Part>
HWY_INLINE void some_results(const Part& part, const Products& of, const Seen& seen,
                             std::int64_t channel, float* y) {
  const std::int64_t channels = of.channels;
  V sums[kTogether];
  const V bias = part.load(of.what.bias + channel);
  for (V& sum : sums) sum = bias;
  if (of.residual != nullptr)
    for (int i = 0; i < kTogether; ++i)
      sums[i] = hn::Add(sums[i], part.load(of.residual + i * channels + channel));
  for (std::int64_t r = seen.top; r < seen.bottom; ++r)
    add_line<kKernel, kStride>(sums, part, seen.from + r * seen.row_step + channel,
                               of.what.weights + r * kKernel * channels + channel, channels,
                               Upto<(kTogether - 1) * kStride + kKernel>(), Upto<kKernel>());
  for (int i = 0; i < kTogether; ++i) part.store(of.end(sums[i]), y + i * channels + channel);
}

template <int kKernel, int kStride>
void results_together(const Products& of, const Seen& seen, float* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= of.channels; i += kLanes)
    some_results<kKernel, kStride>(Whole(), of, seen, i, y);
  if (i < of.channels)
    some_results<kKernel, kStride>(Some{static_cast<std::size_t>(of.channels - i)}, of, seen, i, y);
}

using Together = void (*)(const Products&, const Seen&, float*);

// Null where there is none for such a kernel.
Together together_for(const ChannelWise& what) {
  const Window::Axis& wide = what.window.wide;
  if (what.kind != ChannelWise::Kind::sum_of_products || wide.dilation != 1) return nullptr;
  if (wide.kernel == 3 && wide.stride == 1) return results_together<3, 1>;
  if (wide.kernel == 3 && wide.stride == 2) return results_together<3, 2>;
  if (wide.kernel == 5 && wide.stride == 1) return results_together<5, 1>;
  if (wide.kernel == 5 && wide.stride == 2) return results_together<5, 2>;
  return nullptr;
}

void one_result_of(const ChannelWise& what, const Products& products, const Seen& seen, float* y) {
  const ImageWindow& w = what.window;
  const std::int64_t count = what.counts_padding ? w.high.kernel * w.wide.kernel : seen.count();
  switch (what.kind) {
    case ChannelWise::Kind::sum_of_products: return one_result(products, seen, w, y);
    case ChannelWise::Kind::largest: return one_result(Largest(), seen, w, y);
    case ChannelWise::Kind::mean: return one_result(Mean{static_cast<float>(count)}, seen, w, y);
  }
}

void one_row(const ChannelWise& what, std::int64_t row, const float* x, const float* residual,
             float* y) {
  const ImageWindow& w = what.window;
  const Together together = together_for(what);
  const std::int64_t image = row / w.high.out, down = w.high.start(row % w.high.out);
  Seen seen{.from = nullptr,
            .row_step = w.high.dilation * w.wide.in * w.channels,
            .column_step = w.wide.dilation * w.channels,
            .top = w.high.first(down),
            .bottom = w.high.last(down),
            .left = 0,
            .right = 0};
  for (std::int64_t column = 0; column < w.wide.out;) {
    const std::int64_t across = w.wide.start(column), at = (row * w.wide.out + column) * w.channels;
    seen.from = x + ((image * w.high.in + down) * w.wide.in + across) * w.channels;
    seen.left = w.wide.first(across);
    seen.right = w.wide.last(across);
    const Products products{what, w.wide.kernel, w.channels,
                            residual == nullptr ? nullptr : residual + at};
    const std::int64_t end = column + kTogether;
    if (together != nullptr && across >= 0 && end <= w.wide.out &&
        w.wide.start(end - 1) + w.wide.kernel <= w.wide.in) {
      together(products, seen, y + at);
      column = end;
    } else {
      one_result_of(what, products, seen, y + at);
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
