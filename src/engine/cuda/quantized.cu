#include <cuda_fp8.h>

#include "engine/cuda/activation.cuh"
#include "engine/cuda/element.cuh"
#include "engine/cuda/grid.cuh"
#include "engine/cuda/quantized.h"

namespace sluice::engine::cuda {
namespace {

constexpr int kThreads = 256;

// ---- rows ----------------------------------------------------------------------------------

// N bytes of a row a thread, of one pixel all. Limit: memory.
template <int N>
__global__ void __launch_bounds__(kThreads) write_rows(SmallRows r, long long packs) {
  using P = Pack<unsigned char, N>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const long long a_row = r.row / N;
  const long long row = r.first + i / a_row;
  const auto k = static_cast<int>(i % a_row) * N;
  const int place = k / r.channels, channel = k % r.channels;
  P value{};
  if (place < r.kernel_high * r.kernel_wide) {
    const auto column = static_cast<int>(row % r.out_wide);
    const long long line = row / r.out_wide;
    const int y = static_cast<int>(line % r.out_high) * r.stride_high - r.top +
                  place / r.kernel_wide * r.dilation_high;
    const int x = column * r.stride_wide - r.left + place % r.kernel_wide * r.dilation_wide;
    const bool inside = y >= 0 && y < r.high && x >= 0 && x < r.wide;
    const long long pixel = ((line / r.out_high) * r.high + y) * r.wide + x;
    if (inside)
      value = *reinterpret_cast<const P*>(static_cast<const unsigned char*>(r.x) +
                                          pixel * r.channels + channel);
#pragma unroll
    for (int e = 0; e < N; ++e) value.at[e] = (inside ? value.at[e] : r.outside) ^ r.flip;
  }
  reinterpret_cast<P*>(static_cast<unsigned char*>(r.to))[i] = value;
}

template <int N>
void enqueue_rows(const SmallRows& rows, cudaStream_t stream) {
  const long long packs = rows.count * rows.row / N;
  if (packs > 0) launch(stream, one_each(packs, kThreads), write_rows<N>, rows, packs);
}

// ---- sums ----------------------------------------------------------------------------------

__device__ float real_at(const void* from, SmallType type, long long i) {
  if (type == SmallType::f16) return wide(static_cast<const __half*>(from)[i]);
  if (type == SmallType::bf16) return wide(static_cast<const __nv_bfloat16*>(from)[i]);
  return static_cast<const float*>(from)[i];
}

__device__ float residual_at(const SmallFinish& f, long long i) {
  float steps = 0;
  switch (f.residual_type) {
    case SmallType::f32:
    case SmallType::f16:
    case SmallType::bf16: return real_at(f.residual, f.residual_type, i);
    case SmallType::u8: steps = static_cast<const unsigned char*>(f.residual)[i]; break;
    case SmallType::i8: steps = static_cast<const signed char*>(f.residual)[i]; break;
    default: return 0;
  }
  return (steps - static_cast<float>(f.residual_zero)) * f.residual_scale;
}

__device__ unsigned char fp8_of(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

__device__ unsigned char steps_of(float x, SmallType to, float scale, int zero) {
  const float steps = x / scale;
  if (to == SmallType::f8e4m3) return fp8_of(steps);
  const float low = to == SmallType::i8 ? -128 : 0;
  // NaN is the lowest.
  const float held = fminf(low + 255, fmaxf(low, rintf(steps) + static_cast<float>(zero)));
  return static_cast<unsigned char>(static_cast<int>(held));
}

template <class T, int N>
__device__ void store(void* to, long long i, const float (&numbers)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int e = 0; e < N; ++e) pack.at[e] = narrow<T>(numbers[e]);
  static_cast<Pack<T, N>*>(to)[i] = pack;
}

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
  float made[N];
#pragma unroll
  for (int e = 0; e < N; ++e) {
    Sum sum = sums.at[e];
    if (f.shift != nullptr) sum -= static_cast<Sum>(f.shift[column + e]);
    float x = static_cast<float>(sum) * f.scale[column + e];
    if (f.bias != nullptr) x += f.bias[column + e];
    const float more = residual_at(f, row * f.n + column + e);
    x = activated(f.residual_first ? x + more : x, f.activation, f.low, f.high);
    made[e] = f.residual_first ? x : x + more;
  }
  switch (f.to) {
    case SmallType::f32: return store<float, N>(f.y, i, made);
    case SmallType::f16: return store<__half, N>(f.y, i, made);
    case SmallType::bf16: return store<__nv_bfloat16, N>(f.y, i, made);
    default: break;
  }
  Pack<unsigned char, N> small;
#pragma unroll
  for (int e = 0; e < N; ++e) small.at[e] = steps_of(made[e], f.to, f.to_scale, f.to_zero);
  static_cast<Pack<unsigned char, N>*>(f.y)[i] = small;
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

__global__ void __launch_bounds__(kThreads) to_steps(SmallSteps s) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < s.count)
    static_cast<unsigned char*>(s.y)[i] = steps_of(real_at(s.x, s.from, i), s.to, s.scale, s.zero);
}

__global__ void __launch_bounds__(kThreads)
    from_fp8(const unsigned char* x, float* y, long long count, float scale) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) y[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(x[i], __NV_E4M3))) * scale;
}

}  // namespace

void enqueue(const SmallRows& rows, CUstream_st* stream) {
  const auto divides = [&](int n) { return rows.channels % n == 0 && rows.row % n == 0; };
  if (divides(16)) return enqueue_rows<16>(rows, stream);
  return divides(4) ? enqueue_rows<4>(rows, stream) : enqueue_rows<1>(rows, stream);
}

void enqueue(const SmallFinish& finish, CUstream_st* stream) {
  return finish.whole ? enqueue_finish<int>(finish, stream) : enqueue_finish<float>(finish, stream);
}

void enqueue(const SmallSteps& steps, CUstream_st* stream) {
  if (steps.count > 0) launch(stream, one_each(steps.count, kThreads), to_steps, steps);
}

void enqueue_from_fp8(const void* x, float* y, std::int64_t count, float scale,
                      CUstream_st* stream) {
  if (count > 0)
    launch(stream, one_each(count, kThreads), from_fp8, static_cast<const unsigned char*>(x), y,
           static_cast<long long>(count), scale);
}

}  // namespace sluice::engine::cuda
