#include <mma.h>

#include <algorithm>

#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/gpu/gpu_operations.h"
#include "market/risk/covariance_formula.h"
#include "market/risk/risk_parameters.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::LaunchContext;
namespace wmma = nvcuda::wmma;

constexpr int kThreads = 128, kTile = 32, kDeep = 32;
constexpr int kPitch = kDeep + 4;  // keeps the rows of a fragment in different banks

__device__ double sum_of_block(double mine, double* scratch) {
  __syncthreads();
  scratch[threadIdx.x] = mine;
  for (unsigned d = kThreads / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) scratch[threadIdx.x] += scratch[threadIdx.x + d];
  }
  __syncthreads();
  const double sum = scratch[0];
  __syncthreads();
  return sum;
}

__device__ double root_weight(const CovarianceParameters& p, long long t) {
  if (p.options.kind != CovarianceKind::ewma) return 1;
  return exp(log1p(-2 / (p.options.span + 1)) / 2 *
             static_cast<double>(static_cast<long long>(p.bars) - 1 - t));
}

// Rows about their mean, 0 where a value is missing, and the rows of what is there. One
// block a row. Limit: 32 bytes a value, twice that from the second read.
__global__ void __launch_bounds__(kThreads)
    make_rows(const double* returns, CovarianceParameters p, double* values, double* present,
              int* missing) {
  __shared__ double scratch[kThreads];
  const auto bars = static_cast<long long>(p.bars);
  const double* x = returns + static_cast<long long>(blockIdx.x) * bars;
  const bool fill = p.options.kind == CovarianceKind::ledoit_wolf;
  double n = 0, sum = 0, rest = 0;
  for (long long t = threadIdx.x; t < bars; t += kThreads)
    if (x[t] == x[t]) n += 1, sum += x[t];
  n = sum_of_block(n, scratch), sum = sum_of_block(sum, scratch);
  if (threadIdx.x == 0 && n < static_cast<double>(bars)) *missing = 1;
  double mean = fill ? sum / static_cast<double>(bars) : n > 0 ? sum / n : 0;
  for (long long t = threadIdx.x; t < bars; t += kThreads)
    if (x[t] == x[t]) rest += x[t] - mean;
  rest = sum_of_block(rest, scratch);
  if (!fill && n > 0) mean += rest / n;
  for (long long t = threadIdx.x; t < bars; t += kThreads) {
    const bool there = x[t] == x[t];
    const double w = root_weight(p, t);
    values[static_cast<long long>(blockIdx.x) * bars + t] = there  ? (x[t] - mean) * w
                                                            : fill ? -mean
                                                                   : 0;
    present[static_cast<long long>(blockIdx.x) * bars + t] = there ? w : 0;
  }
}

__device__ void load_tile(const double* rows, long long bars, long long n, long long first,
                          long long t0, double (*tile)[kPitch]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDeep; i += kThreads) {
    const int r = i / kDeep, t = i % kDeep;
    tile[r][t] = first + r < n && t0 + t < bars ? rows[(first + r) * bars + t0 + t] : 0;
  }
}

// The sums of a tile of 32 x 32: four warps with 16 x 16 each on the tensor cores'
// double-precision units, which exist from 8.0 on; before that, eight for each thread.
#if __CUDA_ARCH__ >= 800
class TileSums {
 public:
  __device__ TileSums() {
    for (auto& line : sums_)
      for (auto& s : line) wmma::fill_fragment(s, 0.0);
  }
  __device__ void add(const double (*left)[kPitch], const double (*right)[kPitch]) {
#pragma unroll
    for (int k = 0; k < kDeep; k += 4) {
      wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> x[2];
      wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> y[2];
      for (int r = 0; r < 2; ++r) {
        wmma::load_matrix_sync(x[r], &left[row_ + 8 * r][k], kPitch);
        wmma::load_matrix_sync(y[r], &right[column_ + 8 * r][k], kPitch);
      }
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 2; ++c) wmma::mma_sync(sums_[r][c], x[r], y[c], sums_[r][c]);
    }
  }
  __device__ void store(double (*to)[kPitch]) const {
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c)
        wmma::store_matrix_sync(&to[row_ + 8 * r][column_ + 8 * c], sums_[r][c], kPitch,
                                wmma::mem_row_major);
  }

 private:
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  const int row_ = warp_ / 2 * 16, column_ = warp_ % 2 * 16;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> sums_[2][2];
};
#else
class TileSums {
 public:
  __device__ void add(const double (*left)[kPitch], const double (*right)[kPitch]) {
    for (int k = 0; k < kDeep; ++k)
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        sums_[i] = fma(left[row_ + i * kRows][k], right[column_][k], sums_[i]);
  }
  __device__ void store(double (*to)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[row_ + i * kRows][column_] = sums_[i];
  }

 private:
  static constexpr int kRows = kThreads / kTile, kEach = kTile / kRows;
  const int row_ = static_cast<int>(threadIdx.x) / kTile;
  const int column_ = static_cast<int>(threadIdx.x) % kTile;
  double sums_[kEach] = {};
};
#endif

// out = a b', tile by tile of 32 x 32. With `lower_only` only the tiles on and under the diagonal.
// Does nothing where `*needed` is 0.
// Limit: 2 n^2 bars operations (half of it with `lower_only`) at 67 TFLOP/s; the loads of
// fragments, 1 KiB of shared memory for 2048 operations, allow about as much.
__global__ void __launch_bounds__(kThreads)
    gemm_nt(const double* a, const double* b, long long n, long long bars, bool lower_only,
            const int* needed, double* out) {
  __shared__ double left[kTile][kPitch], right[kTile][kPitch];
  if (lower_only && blockIdx.x > blockIdx.y) return;
  if (needed != nullptr && *needed == 0) return;
  const long long i0 = static_cast<long long>(blockIdx.y) * kTile;
  const long long j0 = static_cast<long long>(blockIdx.x) * kTile;
  TileSums sums;
  for (long long t = 0; t < bars; t += kDeep) {
    __syncthreads();
    load_tile(a, bars, n, i0, t, left);
    load_tile(b, bars, n, j0, t, right);
    __syncthreads();
    sums.add(left, right);
  }
  __syncthreads();
  sums.store(left);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
    const long long r = i0 + i / kTile, c = j0 + i % kTile;
    if (r < n && c < n) out[r * n + c] = left[i / kTile][i % kTile];
  }
}

// One thread a pair; writes both halves.
__global__ void finish_pairs(CovarianceParameters p, const double* sums, const double* counts,
                             const int* missing, const double* weight, double* out) {
  const auto n = static_cast<long long>(p.series);
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long i = at / n, j = at % n;
  if (i >= n || j > i) return;
  const bool gaps = *missing != 0;
  const double value =
      formula::covariance_of(out[i * n + j], gaps ? sums[i * n + j] : 0, gaps ? sums[j * n + i] : 0,
                             gaps ? counts[i * n + j] : *weight, p.options);
  out[i * n + j] = out[j * n + i] = value;
}

__global__ void __launch_bounds__(kThreads) sum_weights(CovarianceParameters p, double* weight) {
  __shared__ double scratch[kThreads];
  double sum = 0;
  for (long long t = threadIdx.x; t < static_cast<long long>(p.bars); t += kThreads) {
    const double w = root_weight(p, t);
    sum += w * w;
  }
  sum = sum_of_block(sum, scratch);
  if (threadIdx.x == 0) *weight = sum;
}

// Per bar: (sum of the squared distances)^2.
__global__ void square_bars(const double* values, CovarianceParameters p, double* out) {
  const auto bars = static_cast<long long>(p.bars);
  const long long t = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= bars) return;
  double sum = 0;
  for (long long i = 0; i < static_cast<long long>(p.series); ++i)
    sum += values[i * bars + t] * values[i * bars + t];
  out[t] = sum * sum;
}

// Ledoit and Wolf's shrinkage; one block.
__global__ void __launch_bounds__(kThreads)
    find_shrinkage(const double* comoments, const double* fourths, CovarianceParameters p,
                   double* shrinkage, double* target) {
  __shared__ double scratch[kThreads];
  const auto n = static_cast<long long>(p.series), bars = static_cast<long long>(p.bars);
  const double count = static_cast<double>(bars);
  double total = 0, squares = 0, fourth = 0;
  for (long long at = threadIdx.x; at < n * n; at += kThreads) {
    const long long i = at / n, j = at % n;
    if (j > i) continue;
    const double v = comoments[at] / count;
    squares += i == j ? v * v : 2 * v * v;
    if (i == j) total += v;
  }
  for (long long t = threadIdx.x; t < bars; t += kThreads) fourth += fourths[t];
  total = sum_of_block(total, scratch), squares = sum_of_block(squares, scratch);
  fourth = sum_of_block(fourth, scratch);
  if (threadIdx.x != 0) return;
  *shrinkage =
      formula::ledoit_wolf_shrinkage(total, squares, fourth, static_cast<double>(n), count);
  *target = total / static_cast<double>(n);
}

__global__ void shrink(CovarianceParameters p, const double* shrinkage, const double* target,
                       double* out) {
  const auto n = static_cast<long long>(p.series);
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long i = at / n, j = at % n;
  if (i >= n || j > i) return;
  double v = out[i * n + j] *
             ((1 - *shrinkage) / static_cast<double>(p.bars) * p.options.periods_per_year);
  if (i == j) v += *shrinkage * *target * p.options.periods_per_year;
  out[i * n + j] = out[j * n + i] = v;
}

struct Scratch {
  double *values, *present, *sums, *counts, *fourths, *weight, *target;
  int* missing;
};

void one_set(const CovarianceParameters& p, const double* in, double* out, double* shrinkage,
             const Scratch& s, LaunchContext& context) {
  const auto n = static_cast<unsigned>(p.series), tiles = (n + kTile - 1) / kTile;
  const auto size = static_cast<long long>(p.series), bars = static_cast<long long>(p.bars);
  const device::Grid squares{dim3(tiles, tiles), dim3(kThreads)};
  const device::Grid pairs{dim3((n * n + 255) / 256), dim3(256)};
  const int* always = nullptr;
  device::check(cudaMemsetAsync(s.missing, 0, sizeof(int), context.stream().get()));
  device::check(cudaMemsetAsync(shrinkage, 0, sizeof(double), context.stream().get()));
  device::launch(context.stream(), {dim3(n), dim3(kThreads)}, make_rows, in, p, s.values, s.present,
                 s.missing);
  device::launch(context.stream(), squares, gemm_nt, s.values, s.values, size, bars, true, always,
                 out);
  if (p.options.kind == CovarianceKind::ledoit_wolf) {
    device::launch(context.stream(), {dim3(static_cast<unsigned>((bars + 255) / 256)), dim3(256)},
                   square_bars, s.values, p, s.fourths);
    device::launch(context.stream(), {dim3(1), dim3(kThreads)}, find_shrinkage, out, s.fourths, p,
                   shrinkage, s.target);
    device::launch(context.stream(), pairs, shrink, p, shrinkage, s.target, out);
    return;
  }
  device::launch(context.stream(), squares, gemm_nt, s.values, s.present, size, bars, false,
                 s.missing, s.sums);
  device::launch(context.stream(), squares, gemm_nt, s.present, s.present, size, bars, true,
                 s.missing, s.counts);
  device::launch(context.stream(), {dim3(1), dim3(kThreads)}, sum_weights, p, s.weight);
  device::launch(context.stream(), pairs, finish_pairs, p, s.sums, s.counts, s.missing, s.weight,
                 out);
}

}  // namespace

void covariance_gpu(const Call& call, LaunchContext& context) {
  const auto& p = call.with<CovarianceParameters>();
  const std::size_t rows = p.series * p.bars, square = p.series * p.series;
  const Scratch s{context.scratch<double>(rows),   context.scratch<double>(rows),
                  context.scratch<double>(square), context.scratch<double>(square),
                  context.scratch<double>(p.bars), context.scratch<double>(1),
                  context.scratch<double>(1),      context.scratch<int>(1)};
  for (std::size_t i = 0; i < call.items; ++i)
    one_set(p, call.input<double>(0) + i * rows, call.output<double>(0) + i * square,
            call.output<double>(1) + i, s, context);
}

}  // namespace sluice::market
