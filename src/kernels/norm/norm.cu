// Layer norm and softmax. Rows of up to 1,024 elements stay in the registers of a warp, read 16
// bytes at a time; longer rows take a block three passes.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/common/live_limit.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/norm/norm.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlock = 256;

__device__ float reciprocal_sqrt(float x) { return 1 / sqrtf(x); }

__device__ Quantizer quantizer_of(const QuantOutput& to) {
  return {to.is_signed ? GemmType::i8 : GemmType::u8, to.scale, to.zero};
}

// A row of at most kChunks * 32 packs in the registers of a warp.
template <class T, int kChunks>
struct RegisterRow {
  static constexpr int kPack = 16 / sizeof(T);
  using P = Pack<T, kPack>;

  int lane, packs;
  float v[kChunks][kPack];

  // Returns the lane's sum. Adds the residual `more` where it is not null.
  __device__ float load(const T* from, const T* more) {
    P own[kChunks], other[kChunks];
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
      if (c * 32 + lane < packs) {
        own[c] = reinterpret_cast<const P*>(from)[c * 32 + lane];
        if (more != nullptr) other[c] = reinterpret_cast<const P*>(more)[c * 32 + lane];
      }
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        v[c][i] = 0;
        if (c * 32 + lane >= packs) continue;
        v[c][i] = wide(own[c].at[i]);
        if (more != nullptr) v[c][i] += wide(other[c].at[i]);
        sum += v[c][i];
      }
    return sum;
  }
  // Returns the lane's sum of squares.
  __device__ float centre(float mean) {
    float squares = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        if (c * 32 + lane >= packs) continue;
        v[c][i] -= mean;
        squares = fmaf(v[c][i], v[c][i], squares);
      }
    return squares;
  }
  // Stores the row, which begins at pack `first` of the result.
  __device__ void store(const LayerNormCall& call, std::int64_t first, float by) const {
    const Quantizer quantize = quantizer_of(call.quantized);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int at = c * 32 + lane;
      if (at >= packs) continue;
      const P s = static_cast<const P*>(call.scale)[at];
      P b{}, y;
      if (call.bias != nullptr) b = static_cast<const P*>(call.bias)[at];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float add = call.bias != nullptr ? wide(b.at[i]) : 0.0f;
        y.at[i] = narrow<T>(fmaf(v[c][i] * by, wide(s.at[i]), add));
      }
      static_cast<P*>(call.out)[first + at] = y;
      if (call.quantized.to == nullptr) continue;
      Pack<unsigned char, kPack> bytes;
#pragma unroll
      for (int i = 0; i < kPack; ++i) bytes.at[i] = quantize(wide(y.at[i]));
      static_cast<Pack<unsigned char, kPack>*>(call.quantized.to)[first + at] = bytes;
    }
  }
};

// One warp for each row.
template <class T, int kChunks>
__global__ void __launch_bounds__(kWarps * 32)
    layer_norm_fwd_warp(const LayerNormCall call, const LiveLimit rows) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= rows()) return;
  const int n = static_cast<int>(call.n);
  const auto count = static_cast<float>(n);
  RegisterRow<T, kChunks> own;
  own.lane = static_cast<int>(threadIdx.x) % 32;
  own.packs = n / own.kPack;
  const float sum =
      own.load(static_cast<const T*>(call.x) + row * n,
               call.residual != nullptr ? static_cast<const T*>(call.residual) + row * n : nullptr);
  const float mean = call.centre ? warp_sum(sum) / count : 0;
  const float by = reciprocal_sqrt(warp_sum(own.centre(mean)) / count + call.epsilon);
  own.store(call, row * own.packs, by);
  if (own.lane == 0 && call.mean != nullptr) call.mean[row] = mean;
  if (own.lane == 0 && call.rstd != nullptr) call.rstd[row] = by;
}

// One block for each row.
template <class T>
__global__ void __launch_bounds__(kBlock)
    layer_norm_fwd_block(const LayerNormCall call, const LiveLimit rows) {
  const std::int64_t row = blockIdx.x, first = row * call.n;
  if (row >= rows()) return;
  const T* const x = static_cast<const T*>(call.x) + first;
  const T* const more =
      call.residual != nullptr ? static_cast<const T*>(call.residual) + first : nullptr;
  const auto value = [&](std::int64_t i) {
    return more != nullptr ? wide(x[i]) + wide(more[i]) : wide(x[i]);
  };
  const auto count = static_cast<float>(call.n);
  float mean = 0, squares = 0;
  if (call.centre) {
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < call.n; i += kBlock) sum += value(i);
    mean = block_sum(sum) / count;
  }
  for (std::int64_t i = threadIdx.x; i < call.n; i += kBlock) {
    const float off = value(i) - mean;
    squares = fmaf(off, off, squares);
  }
  const float by = reciprocal_sqrt(block_sum(squares) / count + call.epsilon);
  const T *const scale = static_cast<const T*>(call.scale), *const bias =
                                                                static_cast<const T*>(call.bias);
  T* const out = static_cast<T*>(call.out) + first;
  const Quantizer quantize = quantizer_of(call.quantized);
  const std::int64_t part = row % call.period * call.each;
  for (std::int64_t i = threadIdx.x; i < call.n; i += kBlock) {
    const std::int64_t k = part + i / call.pixels;
    const T y = narrow<T>(
        fmaf((value(i) - mean) * by, wide(scale[k]), bias != nullptr ? wide(bias[k]) : 0.0f));
    out[i] = y;
    if (call.quantized.to != nullptr)
      static_cast<unsigned char*>(call.quantized.to)[first + i] = quantize(wide(y));
  }
  if (threadIdx.x == 0 && call.mean != nullptr) call.mean[row] = mean;
  if (threadIdx.x == 0 && call.rstd != nullptr) call.rstd[row] = by;
}

template <class T>
void run_layer_norm(const LayerNormCall& call, const LaunchArgs& args) {
  constexpr int kPack = 16 / sizeof(T), kMaxChunks = 1024 / (32 * kPack);
  const bool is_short = call.n <= 1024 && call.n % kPack == 0 && call.plain();
  const LiveLimit rows(args.live, call.rows);
  if (!is_short)
    return launch(stream_of(args), {dim3(static_cast<unsigned>(call.rows)), dim3(kBlock)},
                  layer_norm_fwd_block<T>, call, rows);
  const Grid grid{dim3(static_cast<unsigned>((call.rows + kWarps - 1) / kWarps)),
                  dim3(kWarps * 32)};
  if (call.n <= 512)
    return launch(stream_of(args), grid, layer_norm_fwd_warp<T, kMaxChunks / 2>, call, rows);
  launch(stream_of(args), grid, layer_norm_fwd_warp<T, kMaxChunks>, call, rows);
}

// ---- softmax and norms along an axis ----

// The maximum (softmax) and the normalizer of a line.
struct AxisStats {
  float base, by;
};

__device__ float normalized(AxisNorm kind, float x, const AxisStats& stats) {
  switch (kind) {
    case AxisNorm::softmax: return expf(x - stats.base) * stats.by;
    case AxisNorm::log_softmax: return x - stats.base - stats.by;
    default: return stats.by == 0 ? 0 : x / stats.by;
  }
}
__device__ float summand(AxisNorm kind, float x, float base) {
  if (kind == AxisNorm::l1) return fabsf(x);
  if (kind == AxisNorm::l2) return x * x;
  return expf(x - base);
}
__device__ AxisStats axis_stats(AxisNorm kind, float base, float sum) {
  if (kind == AxisNorm::softmax) return {base, 1 / sum};
  if (kind == AxisNorm::log_softmax) return {base, logf(sum)};
  return {base, kind == AxisNorm::l2 ? sqrtf(sum) : sum};
}
__device__ bool subtracts_max(AxisNorm kind) {
  return kind == AxisNorm::softmax || kind == AxisNorm::log_softmax;
}

// One block for each contiguous line.
template <class T>
__global__ void softmax_fwd_block(const AxisNormCall call) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * call.n;
  const T* const x = static_cast<const T*>(call.x) + first;
  T* const out = static_cast<T*>(call.out) + first;
  float row_max = -INFINITY, sum = 0;
  if (subtracts_max(call.kind)) {
    for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x)
      row_max = fmaxf(row_max, wide(x[i]));
    row_max = block_max(row_max);
  }
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x)
    sum += summand(call.kind, wide(x[i]), row_max);
  const AxisStats stats = axis_stats(call.kind, row_max, block_sum(sum));
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x)
    out[i] = narrow<T>(normalized(call.kind, wide(x[i]), stats));
}

// One warp for each contiguous line of at most kEach * 32 elements, in registers.
template <class T, int kEach>
__global__ void softmax_fwd_warp(const AxisNormCall call) {
  const int lane = static_cast<int>(threadIdx.x) % 32, n = static_cast<int>(call.n);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= call.outer) return;
  const T* const x = static_cast<const T*>(call.x) + row * n;
  float v[kEach], row_max = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    v[i] = i * 32 + lane < n ? wide(x[i * 32 + lane]) : 0;
    if (i * 32 + lane < n) row_max = fmaxf(row_max, v[i]);
  }
  row_max = subtracts_max(call.kind) ? warp_max(row_max) : 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < n) sum += summand(call.kind, v[i], row_max);
  const AxisStats stats = axis_stats(call.kind, row_max, warp_sum(sum));
  T* const out = static_cast<T*>(call.out) + row * n;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < n) out[i * 32 + lane] = narrow<T>(normalized(call.kind, v[i], stats));
}

// One thread for each line, whose elements are `inner` apart; also hardmax.
template <class T>
__global__ void softmax_fwd_strided(const AxisNormCall call) {
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (line >= call.outer * call.inner) return;
  const std::int64_t at = line / call.inner * call.n * call.inner + line % call.inner;
  const T* const x = static_cast<const T*>(call.x) + at;
  T* const out = static_cast<T*>(call.out) + at;
  float row_max = wide(x[0]), sum = 0;
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < call.n; ++i) {
    const float value = wide(x[i * call.inner]);
    if (value > row_max) row_max = value, best = i;
  }
  if (call.kind == AxisNorm::hardmax) {
    for (std::int64_t i = 0; i < call.n; ++i)
      out[i * call.inner] = narrow<T>(i == best ? 1.0f : 0.0f);
    return;
  }
  for (std::int64_t i = 0; i < call.n; ++i)
    sum += summand(call.kind, wide(x[i * call.inner]), row_max);
  const AxisStats stats = axis_stats(call.kind, row_max, sum);
  for (std::int64_t i = 0; i < call.n; ++i)
    out[i * call.inner] = narrow<T>(normalized(call.kind, wide(x[i * call.inner]), stats));
}

template <class T>
void run_axis_norm(const AxisNormCall& call, const LaunchArgs& args) {
  const std::int64_t lines = call.outer * call.inner;
  if (call.inner > 1 || call.kind == AxisNorm::hardmax)
    return launch(stream_of(args),
                  {dim3(static_cast<unsigned>((lines + kBlock - 1) / kBlock)), dim3(kBlock)},
                  softmax_fwd_strided<T>, call);
  const Grid warps{dim3(static_cast<unsigned>((lines + kWarps - 1) / kWarps)), dim3(kWarps * 32)};
  if (call.n <= 256) return launch(stream_of(args), warps, softmax_fwd_warp<T, 8>, call);
  if (call.n <= 1024) return launch(stream_of(args), warps, softmax_fwd_warp<T, 32>, call);
  launch(stream_of(args), {dim3(static_cast<unsigned>(lines)), dim3(kBlock)}, softmax_fwd_block<T>,
         call);
}

}  // namespace

void layer_norm(RealType type, const LayerNormCall& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run_layer_norm<float>(call, args);
  if (type == RealType::f16) return run_layer_norm<__half>(call, args);
  run_layer_norm<__nv_bfloat16>(call, args);
}

void axis_norm(RealType type, const AxisNormCall& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run_axis_norm<float>(call, args);
  if (type == RealType::f16) return run_axis_norm<__half>(call, args);
  run_axis_norm<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
