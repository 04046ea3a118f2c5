#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/conv/sliding_window.cuh"
#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/packed_max.cuh"

namespace sluice::kernels::cuda {
namespace {

// ---- any pool -----------------------------------------------------------------------------------

template <class T>
constexpr bool kIsByte = sizeof(T) == 1;

template <class T>
__device__ float number(T x) {
  if constexpr (kIsByte<T>)
    return static_cast<float>(x);
  else
    return wide(x);
}
template <class T>
__device__ T element(float x) {
  if constexpr (kIsByte<T>)
    return static_cast<T>(x);
  else
    return narrow<T>(x);
}
// The largest of nothing.
template <class T>
constexpr float kLeast = -std::numeric_limits<float>::infinity();
template <>
constexpr float kLeast<std::uint8_t> = 0;
template <>
constexpr float kLeast<std::int8_t> = -128;

// N channels of one pixel a thread. Limit: the wait for loads, each behind a condition and so one
// after the other.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) pool(const PoolCall call, long long packs) {
  using P = Pack<T, N>;
  const long long i = place();
  if (i >= packs) return;
  const Sliding& w = call.window;
  const int parts = call.channels / N;
  const long long pixel = i / parts;
  const int channel = static_cast<int>(i % parts) * N;
  const Corner corner = corner_of(w, pixel);
  float made[N];
  int seen = 0;
#pragma unroll
  for (int e = 0; e < N; ++e) made[e] = call.maximum ? kLeast<T> : 0;
  for (int row = 0; row < w.rows; ++row)
    for (int column = 0; column < w.columns; ++column) {
      const long long at = pixel_at(w, corner, row, column);
      if (at < 0) continue;
      ++seen;
      const P values =
          *reinterpret_cast<const P*>(static_cast<const T*>(call.x) + at * call.channels + channel);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float value = number(values.at[e]);
        if (!call.maximum)
          made[e] += value;
        else if (value > made[e] || value != value)  // NaN stays
          made[e] = value;
      }
    }
  const int count = call.counts_padding ? w.rows * w.columns : seen;
  P out;
#pragma unroll
  for (int e = 0; e < N; ++e)
    out.at[e] = element<T>(call.maximum ? made[e] : made[e] / static_cast<float>(count));
  *reinterpret_cast<P*>(static_cast<T*>(call.y) + pixel * call.channels + channel) = out;
}

template <class T, int N>
void enqueue_as(const PoolCall& call, cudaStream_t stream) {
  const long long packs = pixels_of(call.window) * (call.channels / N);
  if (packs > 0) launch(stream, grid_for(packs), pool<T, N>, call, packs);
}

// ---- the largest, of channels that come in packs ------------------------------------------------

constexpr int kPackBytes = 16;
constexpr int kDown = 4;  // rows of a strip, where an image has as many

struct LargestCall {
  const uint4* x;
  uint4* y;
  Sliding window;
  unsigned total;  // threads
  // Packs of a pixel, rows of a strip, columns, strips of an image.
  Divisor parts, down, columns, strips;
};

// Threads lie along the packs of a pixel, then down a strip of rows, then along it: the pixels of
// a block share most of what they see.
struct Pixel {
  unsigned pack, y, x, image;

  __device__ Pixel(const LargestCall& call, unsigned i) {
    const unsigned pixel = quotient(call.parts, i), column = quotient(call.down, pixel);
    const unsigned strip = quotient(call.columns, column);
    image = quotient(call.strips, strip);
    pack = i - pixel * call.parts.size;
    x = column - strip * call.columns.size;
    y = (strip - image * call.strips.size) * call.down.size + pixel - column * call.down.size;
  }
};

// What lies outside is seen as the nearest inside. A window without gaps sees that as well, so
// the largest is the same, and no load waits for a condition.
__device__ unsigned inside(int at, int size) {
  return static_cast<unsigned>(min(max(at, 0), size - 1));
}

// A pack of one pixel a thread. Limit: memory, x read and y written once; the rows that windows
// share come from the caches. kSide: of a square window, whose loads do not wait for each other;
// 0: any window.
template <class T, int kSide>
__global__ void __launch_bounds__(kThreads) largest(const LargestCall call) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= call.total) return;
  const Sliding& w = call.window;
  const Pixel pixel(call, i);
  if (pixel.y >= static_cast<unsigned>(w.out_height)) return;
  const unsigned parts = call.parts.size;
  const int rows = kSide > 0 ? kSide : w.rows, columns = kSide > 0 ? kSide : w.columns;
  const int top = static_cast<int>(pixel.y) * w.stride_y - w.top;
  const int left = static_cast<int>(pixel.x) * w.stride_x - w.left;
  Largest<T> most[4];
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const unsigned line = (pixel.image * w.height + inside(top + row, w.height)) * w.width * parts;
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      const uint4 seen =
          __ldg(call.x + (line + inside(left + column, w.width) * parts + pixel.pack));
      most[0].see(seen.x), most[1].see(seen.y), most[2].see(seen.z), most[3].see(seen.w);
    }
  }
  const unsigned to = (pixel.image * w.out_height + pixel.y) * w.out_width + pixel.x;
  call.y[to * parts + pixel.pack] =
      make_uint4(most[0].word(), most[1].word(), most[2].word(), most[3].word());
}

// Whether each window has no gaps and sees some of the image.
bool sees_a_stretch(const Sliding& w) {
  const auto along = [](long long in, long long out, int size, int stride, int dilation, int pad) {
    return (dilation == 1 || size == 1) && pad < size && (out - 1) * stride - pad < in;
  };
  return along(w.height, w.out_height, w.rows, w.stride_y, w.dilation_y, w.top) &&
         along(w.width, w.out_width, w.columns, w.stride_x, w.dilation_x, w.left);
}

// None where it is no such pool, or larger than what 32 bits count.
std::optional<LargestCall> largest_call(const PoolCall& call, int element_bytes) {
  constexpr long long kMost = std::numeric_limits<int>::max();
  const Sliding& w = call.window;
  const long long bytes = static_cast<long long>(call.channels) * element_bytes;
  if (!call.maximum || bytes % kPackBytes != 0 || pixels_of(w) == 0 || !sees_a_stretch(w))
    return {};
  const long long parts = bytes / kPackBytes, down = std::min(kDown, w.out_height);
  const long long strips = (w.out_height + down - 1) / down;
  const long long total = w.batch * strips * w.out_width * down * parts;
  if (parts == 0 || total > kMost || parts * w.batch * w.height * w.width > kMost) return {};
  return LargestCall{.x = static_cast<const uint4*>(call.x),
                     .y = static_cast<uint4*>(call.y),
                     .window = w,
                     .total = static_cast<unsigned>(total),
                     .parts = Divisor(parts),
                     .down = Divisor(down),
                     .columns = Divisor(w.out_width),
                     .strips = Divisor(strips)};
}

template <class T>
void enqueue_largest(const LargestCall& call, cudaStream_t stream) {
  const Sliding& w = call.window;
  auto* const kernel = w.rows != w.columns ? largest<T, 0>
                       : w.rows == 3       ? largest<T, 3>
                       : w.rows == 2       ? largest<T, 2>
                                           : largest<T, 0>;
  launch(stream, grid_for(call.total), kernel, call);
}

// -------------------------------------------------------------------------------------------------

template <class T>
void enqueue_of(const PoolCall& call, cudaStream_t stream) {
  if (const auto quick = largest_call(call, sizeof(T))) return enqueue_largest<T>(*quick, stream);
  constexpr int kMost = kPackBytes / sizeof(T);
  return call.channels % kMost == 0 ? enqueue_as<T, kMost>(call, stream)
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
