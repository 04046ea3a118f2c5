// ArgMax, ArgMin and TopK: one block for each line. Elements are compared by sort keys, unsigned
// integers that order as the values do, so that all types are compared alike.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/reduce.h"

namespace sluice::kernels::cuda {
namespace {

using SortKey = unsigned long long;

// +0 and -0 are equal; NaN is above all.
__device__ inline SortKey sort_key(float x) {
  if (x != x) return ~0ull;
  if (x == 0) x = 0;
  const unsigned bits = __float_as_uint(x == 0 ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline SortKey sort_key(__half x) { return sort_key(wide(x)); }
__device__ inline SortKey sort_key(__nv_bfloat16 x) { return sort_key(wide(x)); }
__device__ inline SortKey sort_key(std::int64_t x) {
  return static_cast<SortKey>(x) ^ (1ull << 63);
}
__device__ inline SortKey sort_key(std::int32_t x) {
  return sort_key(static_cast<std::int64_t>(x));
}

// An element; index -1: none.
struct Candidate {
  SortKey key = 0;
  long long index = -1;

  // Whether it ranks before the other: a higher key, or of equal ones the first (`last`: the last).
  __device__ bool before(const Candidate& other, bool last) const {
    if (index < 0 || other.index < 0) return index >= 0;
    if (key != other.key) return key > other.key;
    return last ? index > other.index : index < other.index;
  }
};

// The best candidate of all threads, returned to all threads.
__device__ Candidate block_best(Candidate own, bool last) {
  __shared__ SortKey keys[32];
  __shared__ long long indices[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    Candidate other;
    other.key = __shfl_xor_sync(kAllLanes, own.key, step);
    other.index = __shfl_xor_sync(kAllLanes, own.index, step);
    if (other.before(own, last)) own = other;
  }
  __syncthreads();
  if (lane == 0) keys[warp] = own.key, indices[warp] = own.index;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) {
    Candidate other;
    other.key = keys[i];
    other.index = indices[i];
    if (other.before(own, last)) own = other;
  }
  return own;
}

__device__ Candidate candidate(SortKey key, bool largest, std::int64_t index) {
  Candidate made;
  made.key = largest ? key : ~key;
  made.index = index;
  return made;
}

template <class T>
__global__ void arg_max_min(const ArgReduceCall call) {
  const std::int64_t line = blockIdx.x;
  const T* const from = static_cast<const T*>(call.from) + line / call.inner * call.n * call.inner +
                        line % call.inner;
  Candidate best;
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x) {
    const Candidate other = candidate(sort_key(from[i * call.inner]), call.max, i);
    if (other.before(best, call.select_last_index)) best = other;
  }
  best = block_best(best, call.select_last_index);
  if (threadIdx.x == 0) call.to[line] = best.index;
}

// k passes: each finds the best candidate that ranks behind the previous one.
template <class T>
__global__ void top_k(const TopKCall call) {
  const std::int64_t line = blockIdx.x;
  const std::int64_t outer = line / call.inner, inner = line % call.inner;
  const T* const from = static_cast<const T*>(call.from) + outer * call.n * call.inner + inner;
  Candidate previous;
  for (std::int64_t k = 0; k < call.k; ++k) {
    Candidate best;
    for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x) {
      const Candidate other = candidate(sort_key(from[i * call.inner]), call.largest, i);
      if ((previous.index < 0 || previous.before(other, false)) && other.before(best, false))
        best = other;
    }
    best = block_best(best, false);
    previous = best;
    if (threadIdx.x != 0) continue;
    const std::int64_t to = (outer * call.k + k) * call.inner + inner;
    if (call.values != nullptr) static_cast<T*>(call.values)[to] = from[best.index * call.inner];
    if (call.indices != nullptr) call.indices[to] = best.index;
  }
}

Grid grid_of(std::int64_t lines, std::int64_t n) {
  return {dim3(static_cast<unsigned>(lines)), dim3(n <= 256 ? 32 : 256)};
}

}  // namespace

void run_arg_reduce(NumberType type, const ArgReduceCall& call, const LaunchArgs& args) {
  with_numeric_type(type, [&]<class T>(T) {
    launch(stream_of(args), grid_of(call.outer * call.inner, call.n), arg_max_min<T>, call);
  });
}

void run_top_k(NumberType type, const TopKCall& call, const LaunchArgs& args) {
  with_numeric_type(type, [&]<class T>(T) {
    launch(stream_of(args), grid_of(call.outer * call.inner, call.n), top_k<T>, call);
  });
}

}  // namespace sluice::kernels::cuda
