// Parameters of the kernels of a batch, and the mapping of threads to segments.
#pragma once

#include <cstdint>

#include "market/indicators/cuda/indicators_gpu.h"
#include "market/indicators/cuda/shared_memory_tiles.cuh"

namespace sluice::market::on_gpu {

// The number of bars before a segment's first in which no input changed, at most back to the
// segment before; `all` when it reaches that segment.
struct Unchanged {
  std::int64_t bars;
  bool all;
};

template <class T>
struct Job {
  const T* in[kMaxInputs];
  T* out[kMaxOutputs];
  Plan plan;
  std::int64_t bars, series, parts;
  int segments;                        // of a block, up to kWarp
  int stages;                          // tiles of an input in shared memory
  bool wide;                           // all arrays begin at a multiple of 16 bytes
  const std::int64_t* first_complete;  // of the series: their first complete bar
  const Unchanged* unchanged;          // of the segments, where plan.ratio asks for it
  Cell* ring;                          // of all segments, where it is not in shared memory
};

constexpr int kSeriesPerBlock = 8;  // of a block that looks for beginnings

// Finds the first complete bar of each series, a warp each; the outputs before it are NaN.
template <class T>
__global__ void __launch_bounds__(kWarp* kSeriesPerBlock)
    find_first_complete(const __grid_constant__ Job<T> job, std::int64_t* first_complete) {
  const std::int64_t series = std::int64_t{blockIdx.x} * kSeriesPerBlock + threadIdx.y;
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
      if (threadIdx.x == 0) first_complete[series] = first + skipped;
      return;
    }
  }
  if (threadIdx.x == 0) first_complete[series] = job.bars;
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    find_unchanged(const __grid_constant__ Job<T> job, Unchanged* unchanged) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (id >= job.series * job.parts) return;
  const std::int64_t series = id / job.parts, part = id % job.parts,
                     begin = job.first_complete[series];
  const auto first_of = [&](std::int64_t p) {
    return segment_of(job.plan, series, begin, job.bars, p, job.parts).first;
  };
  const std::int64_t first = first_of(part), lower = part == 0 ? first : first_of(part - 1);
  std::int64_t t = first;
  for (bool moved = false; t > lower; --t) {
    for (int k = 0; k < job.plan.inputs; ++k) {
      const T* row = job.in[k] + series * job.bars;
      moved = moved || row[t] != row[t - 1];
    }
    if (moved) break;
  }
  unchanged[id] = {first - t, t == lower};
}

// This thread's segment; an empty one past the last.
template <class T>
__device__ __forceinline__ Segment own_segment(const Job<T>& job) {
  const std::int64_t id = std::int64_t{blockIdx.x} * job.segments + threadIdx.x;
  const bool any = static_cast<int>(threadIdx.x) < job.segments && id < job.series * job.parts;
  if (!any) return {0, 0, 0, 0};
  const std::int64_t series = id / job.parts;
  std::int64_t unchanged = 0;
  if (job.unchanged != nullptr)  // a part without any movement goes on from the one before
    for (std::int64_t part = id % job.parts, segment = id; part > 0; --part, --segment) {
      unchanged += job.unchanged[segment].bars;
      if (!job.unchanged[segment].all) break;
    }
  return segment_of(job.plan, series, job.first_complete[series], job.bars, id % job.parts,
                    job.parts, unchanged);
}

}  // namespace sluice::market::on_gpu
