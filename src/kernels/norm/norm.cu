// Rows of up to 1,024 elements stay in a warp's registers, 16 bytes read at a time; others
// are gone over by a block, three times.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/norm/norm.h"
#include "kernels/quantized/epilogue.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlock = 256;

__device__ float reciprocal_root(float x) { return 1 / sqrtf(x); }

__device__ Steps steps_of(const StepsOf& steps) {
  return {steps.is_signed ? SmallType::i8 : SmallType::u8, steps.scale, steps.zero};
}

// A row of at most kChunks * 32 packs in a warp's registers.
template <class T, int kChunks>
struct ShortRow {
  static constexpr int kPack = 16 / sizeof(T);
  using P = Pack<T, kPack>;

  int lane, packs;
  float v[kChunks][kPack];

  // Returns the lane's sum. `more` is added where it is not null.
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
  // To the row of the result from pack `first` on.
  __device__ void store(const RowNorm& call, std::int64_t first, float by) const {
    const Steps in_steps = steps_of(call.steps);
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
      if (call.steps.to == nullptr) continue;
      Pack<unsigned char, kPack> steps;
#pragma unroll
      for (int i = 0; i < kPack; ++i) steps.at[i] = in_steps(wide(y.at[i]));
      static_cast<Pack<unsigned char, kPack>*>(call.steps.to)[first + at] = steps;
    }
  }
};

// A warp for each row.
template <class T, int kChunks>
__global__ void __launch_bounds__(kWarps * 32) short_row_norm(const RowNorm call) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= call.rows) return;
  const int n = static_cast<int>(call.n);
  const auto count = static_cast<float>(n);
  ShortRow<T, kChunks> own;
  own.lane = static_cast<int>(threadIdx.x) % 32;
  own.packs = n / own.kPack;
  const float sum =
      own.load(static_cast<const T*>(call.x) + row * n,
               call.residual != nullptr ? static_cast<const T*>(call.residual) + row * n : nullptr);
  const float mean = call.centre ? warp_sum(sum) / count : 0;
  const float by = reciprocal_root(warp_sum(own.centre(mean)) / count + call.epsilon);
  own.store(call, row * own.packs, by);
  if (own.lane == 0 && call.mean != nullptr) call.mean[row] = mean;
  if (own.lane == 0 && call.inverse != nullptr) call.inverse[row] = by;
}

// A block for each row.
template <class T>
__global__ void __launch_bounds__(kBlock) any_row_norm(const RowNorm call) {
  const std::int64_t row = blockIdx.x, first = row * call.n;
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
  const float by = reciprocal_root(block_sum(squares) / count + call.epsilon);
  const T *const scale = static_cast<const T*>(call.scale), *const bias =
                                                                static_cast<const T*>(call.bias);
  T* const out = static_cast<T*>(call.out) + first;
  const Steps in_steps = steps_of(call.steps);
  const std::int64_t part = row % call.period * call.each;
  for (std::int64_t i = threadIdx.x; i < call.n; i += kBlock) {
    const std::int64_t k = part + i / call.pixels;
    const T y = narrow<T>(
        fmaf((value(i) - mean) * by, wide(scale[k]), bias != nullptr ? wide(bias[k]) : 0.0f));
    out[i] = y;
    if (call.steps.to != nullptr)
      static_cast<unsigned char*>(call.steps.to)[first + i] = in_steps(wide(y));
  }
  if (threadIdx.x == 0 && call.mean != nullptr) call.mean[row] = mean;
  if (threadIdx.x == 0 && call.inverse != nullptr) call.inverse[row] = by;
}

template <class T>
void run_norm(const RowNorm& call, const LaunchArgs& args) {
  constexpr int kPack = 16 / sizeof(T), kMost = 1024 / (32 * kPack);
  const bool is_short = call.n <= 1024 && call.n % kPack == 0 && call.plain();
  if (!is_short)
    return launch(stream_of(args), {dim3(static_cast<unsigned>(call.rows)), dim3(kBlock)},
                  any_row_norm<T>, call);
  const Grid grid{dim3(static_cast<unsigned>((call.rows + kWarps - 1) / kWarps)),
                  dim3(kWarps * 32)};
  if (call.n <= 512) return launch(stream_of(args), grid, short_row_norm<T, kMost / 2>, call);
  launch(stream_of(args), grid, short_row_norm<T, kMost>, call);
}

// ---- lines ----

// What a line becomes, element by element, once these two are known.
struct LineFacts {
  float base, by;
};

__device__ float line_value(LineKind kind, float x, const LineFacts& facts) {
  switch (kind) {
    case LineKind::softmax: return expf(x - facts.base) * facts.by;
    case LineKind::log_softmax: return x - facts.base - facts.by;
    default: return facts.by == 0 ? 0 : x / facts.by;
  }
}
__device__ float line_term(LineKind kind, float x, float base) {
  if (kind == LineKind::length1) return fabsf(x);
  if (kind == LineKind::length2) return x * x;
  return expf(x - base);
}
__device__ LineFacts line_facts(LineKind kind, float base, float sum) {
  if (kind == LineKind::softmax) return {base, 1 / sum};
  if (kind == LineKind::log_softmax) return {base, logf(sum)};
  return {base, kind == LineKind::length2 ? sqrtf(sum) : sum};
}
__device__ bool needs_most(LineKind kind) {
  return kind == LineKind::softmax || kind == LineKind::log_softmax;
}

// A block for each line of neighbours.
template <class T>
__global__ void row_lines(const Lines call) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * call.n;
  const T* const x = static_cast<const T*>(call.x) + first;
  T* const out = static_cast<T*>(call.out) + first;
  float most = -INFINITY, sum = 0;
  if (needs_most(call.kind)) {
    for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x) most = fmaxf(most, wide(x[i]));
    most = block_max(most);
  }
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x)
    sum += line_term(call.kind, wide(x[i]), most);
  const LineFacts facts = line_facts(call.kind, most, block_sum(sum));
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x)
    out[i] = narrow<T>(line_value(call.kind, wide(x[i]), facts));
}

// The same, for lines of at most kEach * 32 elements: a warp each, in registers.
template <class T, int kEach>
__global__ void short_lines(const Lines call) {
  const int lane = static_cast<int>(threadIdx.x) % 32, n = static_cast<int>(call.n);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= call.outer) return;
  const T* const x = static_cast<const T*>(call.x) + row * n;
  float v[kEach], most = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    v[i] = i * 32 + lane < n ? wide(x[i * 32 + lane]) : 0;
    if (i * 32 + lane < n) most = fmaxf(most, v[i]);
  }
  most = needs_most(call.kind) ? warp_max(most) : 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < n) sum += line_term(call.kind, v[i], most);
  const LineFacts facts = line_facts(call.kind, most, warp_sum(sum));
  T* const out = static_cast<T*>(call.out) + row * n;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < n) out[i * 32 + lane] = narrow<T>(line_value(call.kind, v[i], facts));
}

// A thread for each line, whose elements lie `inner` apart; all of hardmax.
template <class T>
__global__ void far_lines(const Lines call) {
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (line >= call.outer * call.inner) return;
  const std::int64_t at = line / call.inner * call.n * call.inner + line % call.inner;
  const T* const x = static_cast<const T*>(call.x) + at;
  T* const out = static_cast<T*>(call.out) + at;
  float most = wide(x[0]), sum = 0;
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < call.n; ++i) {
    const float value = wide(x[i * call.inner]);
    if (value > most) most = value, best = i;
  }
  if (call.kind == LineKind::hardmax) {
    for (std::int64_t i = 0; i < call.n; ++i)
      out[i * call.inner] = narrow<T>(i == best ? 1.0f : 0.0f);
    return;
  }
  for (std::int64_t i = 0; i < call.n; ++i)
    sum += line_term(call.kind, wide(x[i * call.inner]), most);
  const LineFacts facts = line_facts(call.kind, most, sum);
  for (std::int64_t i = 0; i < call.n; ++i)
    out[i * call.inner] = narrow<T>(line_value(call.kind, wide(x[i * call.inner]), facts));
}

template <class T>
void run_lines(const Lines& call, const LaunchArgs& args) {
  const std::int64_t lines = call.outer * call.inner;
  if (call.inner > 1 || call.kind == LineKind::hardmax)
    return launch(stream_of(args),
                  {dim3(static_cast<unsigned>((lines + kBlock - 1) / kBlock)), dim3(kBlock)},
                  far_lines<T>, call);
  const Grid warps{dim3(static_cast<unsigned>((lines + kWarps - 1) / kWarps)), dim3(kWarps * 32)};
  if (call.n <= 256) return launch(stream_of(args), warps, short_lines<T, 8>, call);
  if (call.n <= 1024) return launch(stream_of(args), warps, short_lines<T, 32>, call);
  launch(stream_of(args), {dim3(static_cast<unsigned>(lines)), dim3(kBlock)}, row_lines<T>, call);
}

}  // namespace

void row_norm(RealType type, const RowNorm& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run_norm<float>(call, args);
  if (type == RealType::f16) return run_norm<__half>(call, args);
  run_norm<__nv_bfloat16>(call, args);
}

void along_lines(RealType type, const Lines& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run_lines<float>(call, args);
  if (type == RealType::f16) return run_lines<__half>(call, args);
  run_lines<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
