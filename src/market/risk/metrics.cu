// A segment of a series is read by one block: each thread has a run of bars of its own, so
// that the order of the bars is kept, and the block brings in 8 bars of every run at a
// time, 64 bytes each, through shared memory.
#include <algorithm>
#include <cstring>

#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/gpu/gpu_operations.h"
#include "market/risk/metrics_formula.h"
#include "market/risk/metrics_runs.cuh"
#include "market/risk/risk_parameters.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::LaunchContext;
using on_gpu::RunPath;
using on_gpu::RunSums;

constexpr int kThreads = 128, kWarp = 32, kWarps = kThreads / kWarp, kStep = 8;
constexpr int kPitch = kStep + 1;  // no two threads of a half warp meet in a bank
constexpr unsigned kAll = 0xffffffffu;

struct Segment {
  formula::Moments moments;
  formula::CoMoments with;
  double below;
  RunPath path;
};

// A return, NaN where there is none. `values` is bar 0 of the series.
__device__ double return_at(const double* values, bool prices, long long t) {
  if (!prices) return values[t];
  return t == 0 ? NAN : values[t] / values[t - 1] - 1;
}

// The bars [step, step + kStep) of all runs, in two halves: into registers, and on to
// shared memory once the threads are through with what lies there.
struct Tile {
  double held[kStep];

  // `values` is the segment's first bar, `length` its bars; one before it can be read
  // unless it begins the series.
  template <bool kPrices>
  __device__ void fetch(const double* values, int length, int run, int step, bool begins) {
    const int mine = static_cast<int>(threadIdx.x);
    int t = mine / kStep * run + mine % kStep + step;
#pragma unroll
    for (int k = 0; k < kStep; ++k, t += kThreads / kStep * run) {
      if (kPrices)
        held[k] = t < length && (t > 0 || !begins) ? values[t] / values[t - 1] - 1 : NAN;
      else
        held[k] = t < length ? values[t] : NAN;
    }
  }
  __device__ void store(double* tile) const {
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      const int at = k * kThreads + static_cast<int>(threadIdx.x);
      tile[at / kStep * kPitch + at % kStep] = held[k];
    }
  }
};

// Mean of what is there of a tile, the same for all threads.
__device__ double tile_mean(const double* tile, double* scratch) {
  double sum = 0, n = 0;
  for (int k = 0; k < kStep; ++k) {
    const double v = tile[static_cast<int>(threadIdx.x) * kPitch + k];
    if (v == v) sum += v, n += 1;
  }
  for (int d = kWarp / 2; d > 0; d /= 2) {
    sum += __shfl_down_sync(kAll, sum, d);
    n += __shfl_down_sync(kAll, n, d);
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[warp] = sum, scratch[kWarps + warp] = n;
  __syncthreads();
  sum = n = 0;
  for (int w = 0; w < kWarps; ++w) sum += scratch[w], n += scratch[kWarps + w];
  return n > 0 ? sum / n : 0;
}

template <class T>
__device__ T from_above(const T& mine, int lanes) {
  constexpr int kWords = sizeof(T) / sizeof(int);
  static_assert(kWords * sizeof(int) == sizeof(T));
  int words[kWords];
  std::memcpy(words, &mine, sizeof(T));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_down_sync(kAll, words[i], lanes);
  T other;
  std::memcpy(&other, words, sizeof(T));
  return other;
}

// Joins the values of a warp in lane 0; the other lanes hold undefined values.
template <class Join>
__device__ void join_warp(const Join& join) {
#pragma unroll
  for (int lanes = 1; lanes < kWarp; lanes *= 2) join(lanes);
}

// Joins the values of a block in thread 0. `scratch` holds one T per warp.
template <class T>
__device__ T join_in_order(T mine, T* scratch) {
  join_warp([&mine](int lanes) { mine.append(from_above(mine, lanes)); });
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = mine;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kWarps; ++w) mine.append(scratch[w]);
  return mine;
}

// Adds a step's bars of this thread, from `bar` on.
template <bool kPairs>
__device__ __forceinline__ void add_step(const double* tile, const double* other, double shift,
                                         double shift_y, double required_return, int bar,
                                         RunSums& sums, RunPath& path) {
#pragma unroll
  for (int k = 0; k < kStep; ++k, ++bar) {
    const double r = tile[static_cast<int>(threadIdx.x) * kPitch + k];
    const bool there = r == r;
    sums.add(r, there, shift, required_return);
    path.add(r, there, bar);
    if (kPairs && there) {
      const double y = other[static_cast<int>(threadIdx.x) * kPitch + k];
      if (y == y) sums.add_pair(r - shift, y - shift_y);
    }
  }
}

// Limit: 8 bytes a bar, read once: 540 G bars/s at 4.3 TB/s. About 18 double-precision
// instructions a bar, no division and no branch, so that the bars of a step overlap: 930 G.
template <bool kPairs, bool kPrices>
__global__ void __launch_bounds__(kThreads, kPairs ? 4 : 6)
    scan_segments(const double* values, const double* benchmark, RiskParameters p,
                  long long segment_bars, Segment* out) {
  constexpr int kTileSize = kThreads * kPitch;
  constexpr int kMaxWords = sizeof(RunSums) / sizeof(double);
  __shared__ double tile[kTileSize], other[kPairs ? kTileSize : 1], few[kWarps * kMaxWords];
  static_assert(sizeof(RunPath) <= sizeof(RunSums) && kMaxWords >= 2);
  const auto bars = static_cast<long long>(p.bars);
  const long long first = static_cast<long long>(blockIdx.x) * segment_bars;
  const auto length = static_cast<int>(min(segment_bars, bars - first));
  const double* in = values + static_cast<long long>(blockIdx.y) * bars + first;
  const double* with = benchmark + first;
  const int run = (length + kThreads * kStep - 1) / (kThreads * kStep) * kStep;
  double shift = 0, shift_y = 0;
  RunSums sums;
  RunPath path;
  int bar = static_cast<int>(threadIdx.x) * run;
  path.high_bar = path.peak = path.trough = bar - 1;
  Tile next, next_y;
  next.fetch<kPrices>(in, length, run, 0, first == 0);
  if (kPairs) next_y.fetch<kPrices>(with, length, run, 0, first == 0);
  for (int step = 0; step < run; step += kStep) {
    __syncthreads();
    next.store(tile);
    if (kPairs) next_y.store(other);
    __syncthreads();
    if (step + kStep < run) {
      next.fetch<kPrices>(in, length, run, step + kStep, first == 0);
      if (kPairs) next_y.fetch<kPrices>(with, length, run, step + kStep, first == 0);
    }
    if (step == 0) {
      shift = tile_mean(tile, few);
      if (kPairs) shift_y = tile_mean(other, few);
    }
    add_step<kPairs>(tile, other, shift, shift_y, p.options.required_return, bar, sums, path);
    bar += kStep;
  }
  sums = join_in_order(sums, reinterpret_cast<RunSums*>(few));
  path = join_in_order(path, reinterpret_cast<RunPath*>(few));
  if (threadIdx.x == 0)
    out[static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x] = {
        sums.moments(shift), kPairs ? sums.with(shift, shift_y) : formula::CoMoments{}, sums.below,
        path};
}

// Sums of segments [begin, end), joined in their order over the lanes of a warp.
__device__ formula::Totals join_segments(const Segment* segments, unsigned count) {
  const unsigned lane = threadIdx.x % kWarp, each = (count + kWarp - 1) / kWarp;
  formula::Totals t;
  for (unsigned k = lane * each; k < min((lane + 1) * each, count); ++k) {
    t.moments = join(t.moments, segments[k].moments);
    t.with = join(t.with, segments[k].with);
    t.below += segments[k].below;
  }
  join_warp([&t](int lanes) {
    const formula::Totals other = from_above(t, lanes);
    t.moments = join(t.moments, other.moments);
    t.with = join(t.with, other.with);
    t.below += other.below;
  });
  return t;
}

// The deepest fall over segments in their order, as formula::Fall has it. All lanes do the
// same; each has read a segment of its own.
struct LongFall {
  double now = 1, depth = 1, wealth = 1;
  int high = -1, peak = -1, trough = -1;  // segments

  __device__ void add(double end, double top, double low, double inside, double after, int k) {
    if (now * low < depth) depth = now * low, peak = high, trough = k;
    if (inside < depth) depth = inside, peak = trough = k;
    const bool higher = now * top > 1;
    if (higher) high = k;
    now = higher ? after : now * end;
    wealth *= end;
  }
};

__device__ LongFall find_fall(const Segment* segments, int count) {
  LongFall fall;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int base = 0; base < count; base += kWarp) {
    RunPath p;
    if (base + lane < count) p = segments[base + lane].path;
    const double inside = p.of / p.over, after = p.end / p.high;
    for (int j = 0; j < min(kWarp, count - base); ++j)
      fall.add(__shfl_sync(kAll, p.end, j), __shfl_sync(kAll, p.high, j),
               __shfl_sync(kAll, p.low, j), __shfl_sync(kAll, inside, j),
               __shfl_sync(kAll, after, j), base + j);
  }
  return fall;
}

// A warp for a series.
__global__ void __launch_bounds__(kThreads)
    finish_series(const Segment* segments, unsigned count, long long segment_bars, RiskParameters p,
                  std::size_t items, RiskMetrics* out) {
  const std::size_t i = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (i >= items) return;
  segments += i * count;
  formula::Totals totals = join_segments(segments, count);
  const LongFall fall = find_fall(segments, static_cast<int>(count));
  if (threadIdx.x % kWarp != 0) return;
  totals.depth = fall.depth;
  totals.wealth = fall.wealth;
  RiskMetrics m;
  m.peak = m.trough = m.recovery = -1;
  const auto bar = [&](int k, int in_segment) { return k * segment_bars + in_segment; };
  if (fall.trough >= 0) {
    const RunPath& path = segments[fall.trough].path;
    const bool inside = fall.peak == fall.trough;
    m.trough = bar(fall.trough, inside ? path.trough : path.low_bar);
    if (inside)
      m.peak = bar(fall.trough, path.peak);
    else if (fall.peak >= 0)
      m.peak = bar(fall.peak, segments[fall.peak].path.high_bar);
  }
  formula::finish(totals, p.options, m);
  out[i] = m;
}

// Returns the first of kStep bars after which `wealth` has reached 1, or the last of them.
template <class ReturnOf>
__device__ __forceinline__ int recovery_in_step(double wealth, const ReturnOf& return_of) {
  int k = 0;
  for (;; ++k) {
    const double r = return_of(k);
    if (r == r) wealth *= r + 1;
    if (wealth >= 1 || k == kStep - 1) return k;
  }
}

// Looks, from the trough on, for the first bar as high as the peak; one block a series.
__global__ void __launch_bounds__(kThreads)
    find_recovery(const double* values, RiskParameters p, RiskMetrics* out) {
  __shared__ double products[kThreads];
  __shared__ int first_thread;
  const auto bars = static_cast<long long>(p.bars);
  const double* series = values + static_cast<long long>(blockIdx.x) * bars;
  const bool prices = p.options.input == RiskInput::prices;
  const auto at_bar = [&](long long t) { return t < bars ? return_at(series, prices, t) : NAN; };
  RiskMetrics& m = out[blockIdx.x];
  if (m.trough < 0) return;
  double wealth = 1 + m.max_drawdown;
  const int me = static_cast<int>(threadIdx.x);
  for (long long at = m.trough + 1; at < bars; at += kThreads * kStep) {
    double end = 1, high = 0;
    for (int k = 0; k < kStep; ++k) {
      const double r = at_bar(at + me * kStep + k);
      if (r == r) end *= r + 1, high = fmax(high, end);
    }
    __syncthreads();
    products[me] = end;
    if (me == 0) first_thread = kThreads;
    for (int d = 1; d < kThreads; d *= 2) {
      __syncthreads();
      const double before = me >= d ? products[me - d] : 1;
      __syncthreads();
      products[me] *= before;
    }
    __syncthreads();
    const double start = wealth * (me > 0 ? products[me - 1] : 1);
    if (start * high >= 1) atomicMin(&first_thread, me);
    __syncthreads();
    if (first_thread < kThreads) {
      if (me != first_thread) return;
      const long long first = at + me * kStep;
      m.recovery = first + recovery_in_step(start, [&](int k) { return at_bar(first + k); });
      return;
    }
    wealth *= products[kThreads - 1];
  }
}

auto scan_kernel(const RiskParameters& p) {
  if (p.options.input == RiskInput::prices)
    return p.has_benchmark ? scan_segments<true, true> : scan_segments<false, true>;
  return p.has_benchmark ? scan_segments<true, false> : scan_segments<false, false>;
}

}  // namespace

void metrics_gpu(const Call& call, LaunchContext& context) {
  if (call.items == 0) return;
  const auto& p = call.with<RiskParameters>();
  // Depends on the length alone, so that a series gives the same bits in every call.
  const long long segment = p.bars > (std::size_t{4} << 20) ? 65536 : 16384;
  const auto count = static_cast<unsigned>((p.bars + segment - 1) / segment);
  auto* segments = context.scratch<Segment>(call.items * count);
  constexpr std::size_t kMaxRows = 65535;  // of a grid
  for (std::size_t i = 0; i < call.items; i += kMaxRows) {
    const auto rows = static_cast<unsigned>(std::min(kMaxRows, call.items - i));
    device::launch(context.stream(), {dim3(count, rows), dim3(kThreads)}, scan_kernel(p),
                   call.input<double>(0) + i * p.bars,
                   p.has_benchmark ? call.input<double>(1) : nullptr, p, segment,
                   segments + i * count);
  }
  const auto blocks = static_cast<unsigned>((call.items + kWarps - 1) / kWarps);
  device::launch(context.stream(), {dim3(blocks), dim3(kThreads)}, finish_series, segments, count,
                 segment, p, call.items, call.output<RiskMetrics>(0));
  if (p.options.find_recovery)
    device::launch(context.stream(), {dim3(static_cast<unsigned>(call.items)), dim3(kThreads)},
                   find_recovery, call.input<double>(0), p, call.output<RiskMetrics>(0));
}

}  // namespace sluice::market
