// What the kernels of a batch are given, and how a thread finds its line in it.
#pragma once

#include <cstdint>

#include "market/indicators/gpu.h"
#include "market/indicators/tiles.cuh"

namespace sluice::market::on_gpu {

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
  int lines;                   // of a block, up to kWarp
  int stages;                  // tiles of an input in shared memory
  bool wide;                   // all arrays begin at a multiple of 16 bytes
  const std::int64_t* begins;  // of the series: their first complete bar
  const Still* still;          // of the lines, where plan.ratio asks for it
  Cell* ring;                  // of all lines, where it is not in shared memory
};

constexpr int kSeriesEach = 8;  // of a block that looks for beginnings

// Finds the first complete bar of each series, a warp each; the outputs before it are NaN.
template <class T>
__global__ void __launch_bounds__(kWarp* kSeriesEach)
    find_begins(const __grid_constant__ Job<T> job, std::int64_t* begins) {
  const std::int64_t series = std::int64_t{blockIdx.x} * kSeriesEach + threadIdx.y;
  if (series >= job.series) return;
  const std::int64_t row = series * job.bars;
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
      if (threadIdx.x == 0) begins[series] = first + skipped;
      return;
    }
  }
  if (threadIdx.x == 0) begins[series] = job.bars;
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
  const std::int64_t id = std::int64_t{blockIdx.x} * job.lines + threadIdx.x;
  const bool any = static_cast<int>(threadIdx.x) < job.lines && id < job.series * job.parts;
  if (!any) return {0, 0, 0, 0};
  const std::int64_t series = id / job.parts;
  std::int64_t still = 0;
  if (job.still != nullptr)  // a part without any movement goes on from the one before
    for (std::int64_t part = id % job.parts, line = id; part > 0; --part, --line) {
      still += job.still[line].bars;
      if (!job.still[line].whole) break;
    }
  return line_of(job.plan, series, job.begins[series], job.bars, id % job.parts, job.parts, still);
}

}  // namespace sluice::market::on_gpu
