#include <algorithm>

#include "kernels/common/grid.cuh"
#include "kernels/quantized/epilogue.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// ---- rows ----------------------------------------------------------------------------------

// 16 bytes of a row a thread. kWhole: of one pixel all. Limit: memory.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads) write_rows(SmallRows r, long long packs) {
  using P = Pack<unsigned char, 16>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const auto a_row = static_cast<int>(r.row / 16), pixels = r.out_high * r.out_wide;
  const long long row = r.first + i / a_row, image = row / pixels;
  const int pixel = static_cast<int>(row - image * pixels);
  const int top = pixel / r.out_wide * r.stride_high - r.top;
  const int left = pixel % r.out_wide * r.stride_wide - r.left;
  const auto* const from = static_cast<const unsigned char*>(r.x) +
                           image * r.high * r.wide * static_cast<long long>(r.channels);
  const int k = static_cast<int>(i % a_row) * 16;
  int place = k / r.channels, channel = k % r.channels;
  P value{};
#pragma unroll
  for (int e = 0; e < 16; e += kWhole ? 16 : 1) {
    if (place >= r.kernel_high * r.kernel_wide) break;
    const int y = top + place / r.kernel_wide * r.dilation_high;
    const int x = left + place % r.kernel_wide * r.dilation_wide;
    const bool is_inside = y >= 0 && y < r.high && x >= 0 && x < r.wide;
    const long long at = (static_cast<long long>(y) * r.wide + x) * r.channels + channel;
    if constexpr (kWhole) {
      if (is_inside) value = *reinterpret_cast<const P*>(from + at);
      for (unsigned char& byte : value.at) byte = (is_inside ? byte : r.outside) ^ r.flip;
    } else {
      value.at[e] = (is_inside ? from[at] : r.outside) ^ r.flip;
      if (++channel == r.channels) channel = 0, ++place;
    }
  }
  static_cast<P*>(r.to)[i] = value;
}

// ---- folds ---------------------------------------------------------------------------------

// 16 bytes of a pixel a thread, in units of U. Limit: memory. What lies side by side in a row of x,
// a run, does so in a pixel, too.
template <class U>
__global__ void __launch_bounds__(kThreads) fold_pixels(SmallFold f, unsigned packs) {
  constexpr int kUnits = 16 / sizeof(U);
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= packs) return;
  const unsigned a_pixel = static_cast<unsigned>(f.out_channels) / 16, pixel = i / a_pixel;
  const unsigned wide = static_cast<unsigned>(f.out_wide), high = static_cast<unsigned>(f.out_high);
  const unsigned row = pixel / wide, image = row / high;
  const int top = static_cast<int>(row - image * high) * f.down - f.top;
  const int left = static_cast<int>(pixel - row * wide) * f.across - f.left;
  const int channels = f.channels / static_cast<int>(sizeof(U));
  const int run = f.across * channels, line = f.wide * channels;
  const int first = left * channels;  // of the run, in its line
  const auto* const from =
      static_cast<const U*>(f.x) + static_cast<long long>(image) * f.high * line;
  const int k = static_cast<int>(i - pixel * a_pixel) * kUnits;
  int y = k / run, at = k % run;
  Pack<U, kUnits> value{};
#pragma unroll
  for (U& unit : value.at) {
    const int up = top + y, across = first + at;
    const bool is_inside = up >= 0 && up < f.high && across >= 0 && across < line;
    if (y < f.down)
      unit =
          is_inside ? from[static_cast<long long>(up) * line + across] : static_cast<U>(f.outside);
    if (++at == run) at = 0, ++y;
  }
  static_cast<Pack<U, kUnits>*>(f.to)[i] = value;
}

// ---- sums ----------------------------------------------------------------------------------

// N columns a thread. Limit: memory.
template <class Sum, int N>
__global__ void __launch_bounds__(kThreads) finish(SmallFinish f, long long packs) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const int a_row = f.n / N;
  const long long row = i / a_row;
  const int column = static_cast<int>(i % a_row) * N;
  const auto sums = *reinterpret_cast<const Pack<Sum, N>*>(static_cast<const Sum*>(f.sums) +
                                                           row * f.sum_row + column);
  Packs<N, 1> own{.at = i, .step = 0, .count = 1};
  Columns<Sum, N>(f, column).finish(f, own, [&](int) { return sums; });
}

template <class Sum>
void enqueue_finish(const SmallFinish& f, cudaStream_t stream) {
  if (f.rows * f.n == 0) return;
  if (f.n % 4 == 0 && f.sum_row % 4 == 0)
    launch(stream, one_each(f.rows * f.n / 4, kThreads), finish<Sum, 4>, f, f.rows * f.n / 4);
  else
    launch(stream, one_each(f.rows * f.n, kThreads), finish<Sum, 1>, f, f.rows * f.n);
}

// ---- steps ---------------------------------------------------------------------------------

// N numbers a thread. Limit: memory.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) to_steps(SmallSteps s, long long packs) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  Packs<N, 1> pack{.at = i, .step = 0, .count = 1};
  pack.template load_as<T>(s.x, [](T x) { return wide(x); });
  pack.store(s.y, s.to, s.scale, s.zero);
}

template <class T>
void enqueue_steps(const SmallSteps& s, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  if (s.count == 0) return;
  if (s.count % kWide == 0)
    launch(stream, one_each(s.count / kWide, kThreads), to_steps<T, kWide>, s,
           static_cast<long long>(s.count / kWide));
  else
    launch(stream, one_each(s.count, kThreads), to_steps<T, 1>, s, static_cast<long long>(s.count));
}

__global__ void __launch_bounds__(kThreads)
    from_fp8(const unsigned char* x, float* y, long long count, float scale) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) y[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(x[i], __NV_E4M3))) * scale;
}

}  // namespace

void enqueue(const SmallRows& rows, CUstream_st* stream) {
  const long long packs = rows.count * rows.row / 16;
  if (packs == 0) return;
  const bool whole = rows.channels % 16 == 0;
  launch(stream, one_each(packs, kThreads), whole ? write_rows<true> : write_rows<false>, rows,
         packs);
}

void enqueue(const SmallFold& fold, CUstream_st* stream) {
  constexpr long long kMost = 1ll << 31;  // packs, counted in an int
  const long long of_image =
      static_cast<long long>(fold.out_high) * fold.out_wide * (fold.out_channels / 16);
  if (of_image == 0) return;
  const bool by_twos = fold.channels % 2 == 0 && fold.outside == 0;
  SmallFold some = fold;
  for (std::int64_t first = 0; first < fold.batch; first += some.batch) {
    some.batch = std::min<std::int64_t>(fold.batch - first, std::max(kMost / of_image, 1ll));
    some.x = static_cast<const unsigned char*>(fold.x) +
             first * fold.high * fold.wide * static_cast<long long>(fold.channels);
    some.to = static_cast<unsigned char*>(fold.to) + first * of_image * 16;
    const long long packs = some.batch * of_image;
    launch(stream, one_each(packs, kThreads),
           by_twos ? fold_pixels<unsigned short> : fold_pixels<unsigned char>, some,
           static_cast<unsigned>(packs));
  }
}

void enqueue(const SmallFinish& finish, CUstream_st* stream) {
  return finish.whole ? enqueue_finish<int>(finish, stream) : enqueue_finish<float>(finish, stream);
}

void enqueue(const SmallSteps& steps, CUstream_st* stream) {
  switch (steps.from) {
    case SmallType::f16: return enqueue_steps<__half>(steps, stream);
    case SmallType::bf16: return enqueue_steps<__nv_bfloat16>(steps, stream);
    default: return enqueue_steps<float>(steps, stream);
  }
}

void enqueue_from_fp8(const void* x, float* y, std::int64_t count, float scale,
                      CUstream_st* stream) {
  if (count > 0)
    launch(stream, one_each(count, kThreads), from_fp8, static_cast<const unsigned char*>(x), y,
           static_cast<long long>(count), scale);
}

}  // namespace sluice::kernels::cuda
