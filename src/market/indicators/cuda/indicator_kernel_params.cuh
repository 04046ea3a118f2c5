// Parameters of the indicator kernels, and the mapping of threads to segments.
#pragma once

#include <cstdint>

#include "compute/launch_context.h"
#include "market/gpu/gpu_operations.h"
#include "market/indicators/cuda/shared_memory_tiles.cuh"

namespace sluice::market::on_gpu {

// The number of bars before a segment's first in which no input changed, at most back to the
// segment before; `all` when it reaches that segment.
struct Unchanged {
  std::int64_t bars;
  bool all;
};

template <class T>
struct KernelParams {
  const T* in[kMaxInputs];
  T* out[kMaxOutputs];
  Plan plan;
  std::int64_t bars, series, parts;
  int segments;                        // of each block, up to kWarp
  int stages;                          // tiles of an input in shared memory
  bool aligned;                        // all arrays begin at a multiple of 16 bytes
  const std::int64_t* first_complete;  // of the series: their first complete bar
  const Unchanged* unchanged;          // of the segments, where plan.ratio asks for it
  GpuValue* ring;                      // of all segments, where it is not in shared memory
};

constexpr int kSeriesPerBlock = 8;  // of find_first_complete(): a warp for each

// Finds the first complete bar of each series, a warp each; the outputs before it are NaN.
template <class T>
__global__ void __launch_bounds__(kWarp* kSeriesPerBlock)
    find_first_complete(const __grid_constant__ KernelParams<T> params,
                        std::int64_t* first_complete) {
  const std::int64_t series = std::int64_t{blockIdx.x} * kSeriesPerBlock + threadIdx.y;
  if (series >= params.series) return;
  const std::int64_t row = series * params.bars;
  for (std::int64_t first = 0; first < params.bars; first += kWarp) {
    const std::int64_t bar = first + threadIdx.x;
    bool complete = bar < params.bars;
    for (int k = 0; k < params.plan.inputs && complete; ++k)
      complete = !isnan(params.in[k][row + bar]);
    const unsigned found = __ballot_sync(~0u, complete);
    const int skipped = found == 0 ? kWarp : __ffs(static_cast<int>(found)) - 1;
    for (int k = 0; k < params.plan.outputs; ++k)
      if (bar < params.bars && static_cast<int>(threadIdx.x) < skipped)
        params.out[k][row + bar] = static_cast<T>(NAN);
    if (found != 0) {
      if (threadIdx.x == 0) first_complete[series] = first + skipped;
      return;
    }
  }
  if (threadIdx.x == 0) first_complete[series] = params.bars;
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    find_unchanged(const __grid_constant__ KernelParams<T> params, Unchanged* unchanged) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  if (id >= params.series * params.parts) return;
  const std::int64_t series = id / params.parts, part = id % params.parts,
                     begin = params.first_complete[series];
  const auto first_of = [&](std::int64_t p) {
    return segment_of(params.plan, series, begin, params.bars, p, params.parts).first;
  };
  const std::int64_t first = first_of(part), lower = part == 0 ? first : first_of(part - 1);
  std::int64_t t = first;
  for (bool moved = false; t > lower; --t) {
    for (int k = 0; k < params.plan.inputs; ++k) {
      const T* row = params.in[k] + series * params.bars;
      moved = moved || row[t] != row[t - 1];
    }
    if (moved) break;
  }
  unchanged[id] = {first - t, t == lower};
}

// This thread's segment; an empty one past the last.
template <class T>
__device__ __forceinline__ Segment own_segment(const KernelParams<T>& params) {
  const std::int64_t id = std::int64_t{blockIdx.x} * params.segments + threadIdx.x;
  const bool any =
      static_cast<int>(threadIdx.x) < params.segments && id < params.series * params.parts;
  if (!any) return {0, 0, 0, 0};
  const std::int64_t series = id / params.parts;
  std::int64_t unchanged = 0;
  if (params.unchanged != nullptr)  // a part without any movement goes on from the one before
    for (std::int64_t part = id % params.parts, segment = id; part > 0; --part, --segment) {
      unchanged += params.unchanged[segment].bars;
      if (!params.unchanged[segment].all) break;
    }
  return segment_of(params.plan, series, params.first_complete[series], params.bars,
                    id % params.parts, params.parts, unchanged);
}

}  // namespace sluice::market::on_gpu
