// One thread runs one line, one warp 32 of them, on its own: tiles of kBars bars x 32 lines
// come through shared memory, so that global memory is read and written in whole sectors,
// and several are under way while one is computed on.
//
// Limit: memory. Each input is read once and each output written once: 16 bytes a point for
// one double in and out, 269 Gpt/s at 4.3 TB/s; what a line reads before its first output
// (the halo) comes on top. In flight: stages x 4 KiB a warp, against 32 KiB a multiprocessor
// that the latency of memory asks for.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "device/launch.cuh"
#include "market/indicators/gpu.h"

#define SLUICE_RULES on_gpu
#define SLUICE_RULES_BEGIN static_assert(true)
#define SLUICE_RULES_END static_assert(true)
#define SLUICE_RULE __device__ __forceinline__
#include "market/indicators/rules_signal-inl.h"

namespace sluice::market::on_gpu {

// A value of one line.
struct Cell {
  double x;

  Cell() = default;
  __device__ __forceinline__ explicit Cell(double value) : x(value) {}
};

__device__ __forceinline__ Cell operator+(Cell a, Cell b) { return Cell(a.x + b.x); }
__device__ __forceinline__ Cell operator-(Cell a, Cell b) { return Cell(a.x - b.x); }
__device__ __forceinline__ Cell operator*(Cell a, Cell b) { return Cell(a.x * b.x); }
__device__ __forceinline__ Cell root(Cell a) { return Cell(sqrt(a.x)); }
__device__ __forceinline__ Cell magnitude(Cell a) { return Cell(fabs(a.x)); }
__device__ __forceinline__ Cell pick_lt(Cell a, Cell b, Cell yes, Cell no) {
  return Cell(a.x < b.x ? yes.x : no.x);
}

// Within an ulp or two, in 8 double instructions in place of the exact division's 20; what
// is not finite (or too small for the approximation) is divided exactly.
__device__ __forceinline__ Cell quotient(Cell a, Cell b) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(b.x));
  r = fma(r, fma(-b.x, r, 1.0), r);
  r = fma(r, fma(-b.x, r, 1.0), r);
  double q = a.x * r;
  q = fma(r, fma(-b.x, q, a.x), q);
  return Cell(fabs(q) < INFINITY ? q : a.x / b.x);
}

constexpr int kWarp = 32;

// A line's past in shared memory, beside those of the other lanes.
struct OwnRing {
  Cell* at;

  __device__ __forceinline__ Cell& operator[](int i) const { return at[i * kWarp]; }
  __device__ __forceinline__ OwnRing operator+(int i) const { return {at + i * kWarp}; }
};

// The same in global memory, where periods are long.
struct FarRing {
  Cell* at;
  std::int64_t stride;

  __device__ __forceinline__ Cell& operator[](int i) const { return at[i * stride]; }
  __device__ __forceinline__ FarRing operator+(int i) const { return {at + i * stride, stride}; }
};

constexpr int kBars = 16;        // of a tile
constexpr int kRow = kBars + 1;  // in shared memory: no two lines of a warp share a bank
constexpr int kSteps = kBars;    // of a warp, to move a tile: 32 values each
constexpr int kMostStages = 8;   // that the pipeline can wait for

// Bars before a line's first in which nothing moved, back to the line before at most.
struct Still {
  std::int64_t bars;
  bool whole;
};

template <class T>
struct Job {
  const T* in[kMostInputs];
  T* out[kMostOutputs];
  Plan plan;
  std::int64_t bars, series, parts;
  int stages;
  const std::int64_t* begins;  // of the series: their first complete bar
  const Still* still;          // of the lines, where plan.ratio asks for it
  Cell* ring;                  // of all lines, where it is not in shared memory
};

// What the lanes of a warp must know about each other's lines to move tiles: lane l moves
// bar l % kBars of lines l / kBars, l / kBars + 2, ...
struct Rows {
  std::int64_t at[kSteps];  // element of the first bar
  int begin[kSteps], end[kSteps];

  __device__ __forceinline__ Rows(const Line& line, std::int64_t bars, int store_from) {
    const int mine = threadIdx.x / kBars;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int row = 2 * i + mine;
      at[i] = __shfl_sync(~0u, line.series * bars + line.from, row);
      begin[i] = __shfl_sync(~0u, store_from, row);
      end[i] = __shfl_sync(~0u, static_cast<int>(line.end - line.from), row);
    }
  }
};

// Finds the first complete bar of each series, a warp each; the outputs before it are NaN.
template <class T>
__global__ void __launch_bounds__(kWarp)
    find_begins(const __grid_constant__ Job<T> job, std::int64_t* begins) {
  const std::int64_t row = std::int64_t{blockIdx.x} * job.bars;
  for (std::int64_t first = 0; first < job.bars; first += kWarp) {
    const std::int64_t bar = first + threadIdx.x;
    bool complete = bar < job.bars;
    for (int k = 0; k < job.plan.inputs && complete; ++k) complete = !isnan(job.in[k][row + bar]);
    const unsigned found = __ballot_sync(~0u, complete);
    const int skipped = found == 0 ? kWarp : __ffs(static_cast<int>(found)) - 1;
    for (int k = 0; k < job.plan.outputs; ++k)
      if (bar < job.bars && static_cast<int>(threadIdx.x) < skipped)
        job.out[k][row + bar] = static_cast<T>(NAN);
    if (found != 0) {
      if (threadIdx.x == 0) begins[blockIdx.x] = first + skipped;
      return;
    }
  }
  if (threadIdx.x == 0) begins[blockIdx.x] = job.bars;
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    find_still(const __grid_constant__ Job<T> job, Still* still) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (id >= job.series * job.parts) return;
  const std::int64_t series = id / job.parts, part = id % job.parts, begin = job.begins[series];
  const auto first_of = [&](std::int64_t p) {
    return line_of(job.plan, series, begin, job.bars, p, job.parts).first;
  };
  const std::int64_t first = first_of(part), least = part == 0 ? first : first_of(part - 1);
  std::int64_t t = first;
  for (bool moved = false; t > least; --t) {
    for (int k = 0; k < job.plan.inputs; ++k) {
      const T* row = job.in[k] + series * job.bars;
      moved = moved || row[t] != row[t - 1];
    }
    if (moved) break;
  }
  still[id] = {first - t, t == least};
}

// This thread's line; an empty one past the last.
template <class T>
__device__ __forceinline__ Line own_line(const Job<T>& job) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (id >= job.series * job.parts) return {0, 0, 0, 0};
  const std::int64_t series = id / job.parts;
  std::int64_t still = 0;
  if (job.still != nullptr)  // a part without any movement goes on from the one before
    for (std::int64_t part = id % job.parts, line = id; part > 0; --part, --line) {
      still += job.still[line].bars;
      if (!job.still[line].whole) break;
    }
  return line_of(job.plan, series, job.begins[series], job.bars, id % job.parts, job.parts, still);
}

template <class T, int kInputs>
__device__ __forceinline__ void fetch(const Job<T>& job, const Rows& rows, T* slot, int t) {
  const int bar = threadIdx.x % kBars, mine = threadIdx.x / kBars;
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      if (t + bar < rows.end[i])
        __pipeline_memcpy_async(slot + (k * kWarp + 2 * i + mine) * kRow + bar,
                                job.in[k] + rows.at[i] + t + bar, sizeof(T));
  }
  __pipeline_commit();
}

template <class T, int kOutputs>
__device__ __forceinline__ void write(const Job<T>& job, const Rows& rows, const T* tile, int t) {
  const int bar = threadIdx.x % kBars, mine = threadIdx.x / kBars;
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      if (t + bar >= rows.begin[i] && t + bar < rows.end[i])
        __stcs(job.out[k] + rows.at[i] + t + bar, tile[(k * kWarp + 2 * i + mine) * kRow + bar]);
  }
}

// One bar of this thread's line, from its row of the tile to its row of the other.
template <class S, class T, class R>
__device__ __forceinline__ void advance(S& state, const Plan& plan, R ring, const T* from, T* to,
                                        bool quiet) {
  Cell in[S::kInputs], out[S::kOutputs];
#pragma unroll
  for (int k = 0; k < S::kInputs; ++k) in[k] = Cell(static_cast<double>(from[k * kWarp * kRow]));
#pragma unroll
  for (int k = 0; k < S::kOutputs; ++k) out[k] = Cell(0);
  state.update(plan, in, ring, out);
#pragma unroll
  for (int k = 0; k < S::kOutputs; ++k)
    to[k * kWarp * kRow] = quiet ? static_cast<T>(NAN) : static_cast<T>(out[k].x);
}

template <class S, class T, bool kOwn>
__global__ void __launch_bounds__(kWarp) run_lines(const __grid_constant__ Job<T> job) {
  extern __shared__ double2 memory[];
  constexpr int kSlot = S::kInputs * kWarp * kRow;
  T* const slots = reinterpret_cast<T*>(memory);
  T* const made = slots + job.stages * kSlot;
  const int lane = threadIdx.x;
  const auto ring = [&] {
    if constexpr (kOwn)
      return OwnRing{reinterpret_cast<Cell*>(made + S::kOutputs * kWarp * kRow) + lane};
    else
      return FarRing{job.ring + std::int64_t{blockIdx.x} * kWarp + lane,
                     std::int64_t{gridDim.x} * kWarp};
  }();
  for (int i = 0; i < job.plan.ring; ++i) ring[i] = Cell(0);

  const Line line = own_line(job);
  const Rows rows(line, job.bars, static_cast<int>(line.first - line.from));
  const int longest = __reduce_max_sync(~0u, static_cast<int>(line.end - line.from));
  const int tiles = (longest + kBars - 1) / kBars;
  for (int i = 0; i < job.stages - 1; ++i)
    fetch<T, S::kInputs>(job, rows, slots + i * kSlot, i * kBars);

  S state{};
  int slot = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const int t = tile * kBars, free = slot == 0 ? job.stages - 1 : slot - 1;
    fetch<T, S::kInputs>(job, rows, slots + free * kSlot, t + (job.stages - 1) * kBars);
    __pipeline_wait_prior(job.stages - 1);
    __syncwarp();
    const T* from = slots + slot * kSlot + lane * kRow;
#pragma unroll 4
    for (int i = 0; i < kBars; ++i)
      advance(state, job.plan, ring, from + i, made + lane * kRow + i, t + i < job.plan.lookback);
    __syncwarp();
    write<T, S::kOutputs>(job, rows, made, t);
    __syncwarp();
    slot = slot + 1 == job.stages ? 0 : slot + 1;
  }
  __pipeline_wait_prior(0);
}

// ---- launch ----------------------------------------------------------------------------

struct Card {
  int processors, shared;  // shared memory that a block may have
};

inline Card this_card() {
  int device = 0;
  Card card{};
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&card.processors, cudaDevAttrMultiProcessorCount, device));
  device::check(
      cudaDeviceGetAttribute(&card.shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return card;
}

// Lines per series. Rules whose lines give the same bits anyway are cut until every
// multiprocessor has kWarpsEach warps; others by the length of the series alone.
inline std::int64_t parts_for(const Plan& plan, std::int64_t bars, std::int64_t series,
                              const Card& card) {
  constexpr std::int64_t kOverhead = 6, kWarpsEach = 10, kShortest = 512;
  if (plan.align == 0 || plan.halo == kEndless) return lines_of(plan, bars, series, kOverhead);
  const std::int64_t reach = plan.halo + plan.lookback + plan.align;
  const std::int64_t most = std::max<std::int64_t>(bars / std::max(16 * reach, kShortest), 1);
  const std::int64_t wanted = card.processors * kWarpsEach * kWarp;
  return std::clamp<std::int64_t>((wanted + series - 1) / series, 1, most);
}

// Launches the kernel of a plan's rule.
template <class T>
struct Launch {
  const compute::Call& call;
  compute::Lane& lane;
  Job<T> job;
  Card card;

  template <class S>
  void run() {
    const std::int64_t blocks = (job.series * job.parts + kWarp - 1) / kWarp;
    const auto each = std::clamp<std::int64_t>(blocks / card.processors + 1, 2, 12);
    const std::size_t budget = static_cast<std::size_t>(card.shared / each);
    const std::size_t slot = std::size_t{S::kInputs} * kWarp * kRow * sizeof(T);
    const std::size_t made = std::size_t{S::kOutputs} * kWarp * kRow * sizeof(T);
    std::size_t ring = static_cast<std::size_t>(job.plan.ring) * kWarp * sizeof(Cell);
    const bool far = made + ring + 3 * slot > static_cast<std::size_t>(card.shared) / 2;
    if (far) {
      job.ring = lane.scratch<Cell>(static_cast<std::size_t>(job.plan.ring * blocks) * kWarp);
      ring = 0;
    }
    const std::size_t rest = budget > made + ring ? budget - made - ring : 0;
    job.stages = static_cast<int>(std::clamp<std::size_t>(rest / slot, 3, kMostStages));
    const std::size_t shared = static_cast<std::size_t>(job.stages) * slot + made + ring;
    if constexpr (S::kKeeps)
      start(far ? run_lines<S, T, false> : run_lines<S, T, true>, blocks, shared);
    else
      start(run_lines<S, T, true>, blocks, shared);
  }

  void start(void (*kernel)(Job<T>), std::int64_t blocks, std::size_t shared) {
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared)));
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared));
    device::launch(lane.stream(), {dim3(static_cast<unsigned>(blocks)), dim3(kWarp), shared},
                   kernel, job);
  }
};

template <class T>
void batch_on(const compute::Call& call, compute::Lane& lane) {
  const auto& batch = call.with<Batch>();
  if (call.items == 0 || batch.bars == 0) return;
  const Card card = this_card();
  Launch<T> launch{call, lane, {}, card};
  Job<T>& job = launch.job;
  job.plan = batch.plan;
  job.bars = batch.bars;
  job.series = static_cast<std::int64_t>(call.items);
  job.parts = parts_for(batch.plan, batch.bars, job.series, card);
  if (batch.bars / job.parts > 1 << 30)
    throw Error(Code::exhausted, "a series too long for one thread of a GPU");
  for (std::size_t k = 0; k < call.in.size(); ++k) job.in[k] = call.input<T>(k);
  for (std::size_t k = 0; k < call.out.size(); ++k) job.out[k] = call.output<T>(k);
  auto* const begins = lane.scratch<std::int64_t>(call.items);
  job.begins = begins;
  device::launch(lane.stream(), {dim3(static_cast<unsigned>(call.items)), dim3(kWarp)},
                 find_begins<T>, job, begins);
  if (batch.plan.ratio != 0 && job.parts > 1) {
    const std::int64_t lines = job.series * job.parts;
    auto* const still = lane.scratch<Still>(static_cast<std::size_t>(lines));
    job.still = still;
    device::launch(lane.stream(),
                   {dim3(static_cast<unsigned>((lines + kWarp - 1) / kWarp)), dim3(kWarp)},
                   find_still<T>, job, still);
  }
  visit_rule<Cell>(batch.plan, launch);
}

}  // namespace sluice::market::on_gpu
