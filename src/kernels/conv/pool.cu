#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/conv/sliding_window.cuh"
#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/packed_max.cuh"

namespace sluice::kernels::cuda {
namespace {

// ---- any pool ---------------------------------------------------------------------------------

template <class T>
constexpr bool kIsByte = sizeof(T) == 1;

template <class T>
__device__ float to_float(T x) {
  if constexpr (kIsByte<T>)
    return static_cast<float>(x);
  else
    return wide(x);
}
template <class T>
__device__ T from_float(float x) {
  if constexpr (kIsByte<T>)
    return static_cast<T>(x);
  else
    return narrow<T>(x);
}
// The identity of max.
template <class T>
constexpr float kLowest = -std::numeric_limits<float>::infinity();
template <>
constexpr float kLowest<std::uint8_t> = 0;
template <>
constexpr float kLowest<std::int8_t> = -128;

// Each thread computes N channels of a pixel. Limit: latency of loads, which depend on a condition
// and so run one after the other.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) pool2d(const PoolCall call, long long packs) {
  using P = Pack<T, N>;
  const long long i = thread_index();
  if (i >= packs) return;
  const SlidingWindow& w = call.window;
  const int parts = call.channels / N;
  const long long pixel = i / parts;
  const int channel = static_cast<int>(i % parts) * N;
  const WindowCorner corner = corner_of(w, pixel);
  float result[N];
  int valid = 0;
#pragma unroll
  for (int e = 0; e < N; ++e) result[e] = call.maximum ? kLowest<T> : 0;
  for (int row = 0; row < w.rows; ++row)
    for (int column = 0; column < w.columns; ++column) {
      const long long at = pixel_at(w, corner, row, column);
      if (at < 0) continue;
      ++valid;
      const P values =
          *reinterpret_cast<const P*>(static_cast<const T*>(call.x) + at * call.channels + channel);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float value = to_float(values.at[e]);
        if (!call.maximum)
          result[e] += value;
        else if (value > result[e] || value != value)  // NaN propagates
          result[e] = value;
      }
    }
  const int count = call.counts_padding ? w.rows * w.columns : valid;
  P out;
#pragma unroll
  for (int e = 0; e < N; ++e)
    out.at[e] = from_float<T>(call.maximum ? result[e] : result[e] / static_cast<float>(count));
  *reinterpret_cast<P*>(static_cast<T*>(call.y) + pixel * call.channels + channel) = out;
}

template <class T, int N>
void enqueue_as(const PoolCall& call, cudaStream_t stream) {
  const long long packs = pixels_of(call.window) * (call.channels / N);
  if (packs > 0) launch(stream, grid_for(packs), pool2d<T, N>, call, packs);
}

// ---- max pooling, 16 bytes of channels a thread -----------------------------------------------

constexpr int kPackBytes = 16;
constexpr int kStripRows = 4;  // at most, fewer in small images

struct MaxPool2dCall {
  const uint4* x;
  uint4* y;
  SlidingWindow window;
  unsigned total;  // threads
  // Packs of a pixel, rows of a strip, columns, strips of an image.
  Divisor parts, down, columns, strips;
};

// Threads run along the packs of a pixel, then down a strip of rows, then along the strip, so that
// the windows of a block overlap.
struct OutputPixel {
  unsigned pack, y, x, image;

  __device__ OutputPixel(const MaxPool2dCall& call, unsigned i) {
    const unsigned pixel = quotient(call.parts, i), column = quotient(call.down, pixel);
    const unsigned strip = quotient(call.columns, column);
    image = quotient(call.strips, strip);
    pack = i - pixel * call.parts.size;
    x = column - strip * call.columns.size;
    y = (strip - image * call.strips.size) * call.down.size + pixel - column * call.down.size;
  }
};

// Clamps a coordinate to the image. A dense window contains the nearest pixel too, so the maximum
// is the same, and no load depends on a condition.
__device__ unsigned clamped(int at, int size) {
  return static_cast<unsigned>(min(max(at, 0), size - 1));
}

// Each thread computes 16 bytes of channels of a pixel. Limit: memory, x read and y written once;
// rows that windows share come from the caches. kKernel: the size of a square kernel, whose loads
// are unrolled; 0: any kernel.
template <class T, int kKernel>
__global__ void __launch_bounds__(kThreads) max_pool2d(const MaxPool2dCall call) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= call.total) return;
  const SlidingWindow& w = call.window;
  const OutputPixel pixel(call, i);
  if (pixel.y >= static_cast<unsigned>(w.out_height)) return;
  const unsigned parts = call.parts.size;
  const int rows = kKernel > 0 ? kKernel : w.rows, columns = kKernel > 0 ? kKernel : w.columns;
  const int top = static_cast<int>(pixel.y) * w.stride_y - w.top;
  const int left = static_cast<int>(pixel.x) * w.stride_x - w.left;
  PackedMax<T> maxima[4];
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const unsigned line = (pixel.image * w.height + clamped(top + row, w.height)) * w.width * parts;
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      const uint4 values =
          __ldg(call.x + (line + clamped(left + column, w.width) * parts + pixel.pack));
      maxima[0].update(values.x), maxima[1].update(values.y), maxima[2].update(values.z),
          maxima[3].update(values.w);
    }
  }
  const unsigned to = (pixel.image * w.out_height + pixel.y) * w.out_width + pixel.x;
  call.y[to * parts + pixel.pack] =
      make_uint4(maxima[0].word(), maxima[1].word(), maxima[2].word(), maxima[3].word());
}

// Whether every window is without gaps and overlaps the image.
bool windows_are_dense(const SlidingWindow& w) {
  const auto along = [](long long in, long long out, int size, int stride, int dilation, int pad) {
    return (dilation == 1 || size == 1) && pad < size && (out - 1) * stride - pad < in;
  };
  return along(w.height, w.out_height, w.rows, w.stride_y, w.dilation_y, w.top) &&
         along(w.width, w.out_width, w.columns, w.stride_x, w.dilation_x, w.left);
}

// Empty unless it is a max pool with dense windows and whole packs, and 32 bits index it.
std::optional<MaxPool2dCall> max_pool_call(const PoolCall& call, int element_bytes) {
  constexpr long long kMaxIndex = std::numeric_limits<int>::max();
  const SlidingWindow& w = call.window;
  const long long bytes = static_cast<long long>(call.channels) * element_bytes;
  if (!call.maximum || bytes % kPackBytes != 0 || pixels_of(w) == 0 || !windows_are_dense(w))
    return {};
  const long long parts = bytes / kPackBytes, down = std::min(kStripRows, w.out_height);
  const long long strips = (w.out_height + down - 1) / down;
  const long long total = w.batch * strips * w.out_width * down * parts;
  if (parts == 0 || total > kMaxIndex || parts * w.batch * w.height * w.width > kMaxIndex)
    return {};
  return MaxPool2dCall{.x = static_cast<const uint4*>(call.x),
                       .y = static_cast<uint4*>(call.y),
                       .window = w,
                       .total = static_cast<unsigned>(total),
                       .parts = Divisor(parts),
                       .down = Divisor(down),
                       .columns = Divisor(w.out_width),
                       .strips = Divisor(strips)};
}

template <class T>
void enqueue_max_pool(const MaxPool2dCall& call, cudaStream_t stream) {
  const SlidingWindow& w = call.window;
  auto* const kernel = w.rows != w.columns ? max_pool2d<T, 0>
                       : w.rows == 3       ? max_pool2d<T, 3>
                       : w.rows == 2       ? max_pool2d<T, 2>
                                           : max_pool2d<T, 0>;
  launch(stream, grid_for(call.total), kernel, call);
}

// -------------------------------------------------------------------------------------------------

template <class T>
void enqueue_of(const PoolCall& call, cudaStream_t stream) {
  if (const auto packed = max_pool_call(call, sizeof(T)))
    return enqueue_max_pool<T>(*packed, stream);
  constexpr int kVector = kPackBytes / sizeof(T);
  return call.channels % kVector == 0 ? enqueue_as<T, kVector>(call, stream)
                                      : enqueue_as<T, 1>(call, stream);
}

}  // namespace

void enqueue_pool(const PoolCall& call, CUstream_st* stream) {
  switch (call.type) {
    case PoolType::f32: return enqueue_of<float>(call, stream);
    case PoolType::f16: return enqueue_of<__half>(call, stream);
    case PoolType::bf16: return enqueue_of<__nv_bfloat16>(call, stream);
    case PoolType::u8: return enqueue_of<std::uint8_t>(call, stream);
    case PoolType::i8: return enqueue_of<std::int8_t>(call, stream);
  }
}

}  // namespace sluice::kernels::cuda
