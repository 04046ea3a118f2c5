// Which are the largest: of a line, by a block. An element's rank is a number that is larger
// the earlier it comes, so that all types are compared alike.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/reduce.h"

namespace sluice::kernels::cuda {
namespace {

using Rank = unsigned long long;

// Zeros of both signs are equal, what is no number is above all.
__device__ inline Rank rank_of(float x) {
  if (x != x) return ~0ull;
  if (x == 0) x = 0;
  const unsigned bits = __float_as_uint(x == 0 ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline Rank rank_of(__half x) { return rank_of(wide(x)); }
__device__ inline Rank rank_of(__nv_bfloat16 x) { return rank_of(wide(x)); }
__device__ inline Rank rank_of(std::int64_t x) { return static_cast<Rank>(x) ^ (1ull << 63); }
__device__ inline Rank rank_of(std::int32_t x) { return rank_of(static_cast<std::int64_t>(x)); }

// -1: none.
struct Candidate {
  Rank rank = 0;
  long long index = -1;

  // Whether it comes before the other: a higher rank, or the first of equals (or the last).
  __device__ bool before(const Candidate& other, bool last) const {
    if (index < 0 || other.index < 0) return index >= 0;
    if (rank != other.rank) return rank > other.rank;
    return last ? index > other.index : index < other.index;
  }
};

// The first of all threads' candidates, for all threads.
__device__ Candidate block_first(Candidate own, bool last) {
  __shared__ Rank ranks[32];
  __shared__ long long indices[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    Candidate other;
    other.rank = __shfl_xor_sync(kAllLanes, own.rank, step);
    other.index = __shfl_xor_sync(kAllLanes, own.index, step);
    if (other.before(own, last)) own = other;
  }
  __syncthreads();
  if (lane == 0) ranks[warp] = own.rank, indices[warp] = own.index;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) {
    Candidate other;
    other.rank = ranks[i];
    other.index = indices[i];
    if (other.before(own, last)) own = other;
  }
  return own;
}

__device__ Candidate candidate(Rank rank, bool most, std::int64_t index) {
  Candidate made;
  made.rank = most ? rank : ~rank;
  made.index = index;
  return made;
}

template <class T>
__global__ void arg_kernel(const ArgCall call) {
  const std::int64_t line = blockIdx.x;
  const T* const from = static_cast<const T*>(call.from) + line / call.inner * call.n * call.inner +
                        line % call.inner;
  Candidate best;
  for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x) {
    const Candidate other = candidate(rank_of(from[i * call.inner]), call.most, i);
    if (other.before(best, call.last)) best = other;
  }
  best = block_first(best, call.last);
  if (threadIdx.x == 0) call.to[line] = best.index;
}

// Each is the first of those that come after the one before.
template <class T>
__global__ void top_kernel(const TopCall call) {
  const std::int64_t line = blockIdx.x;
  const std::int64_t outer = line / call.inner, inner = line % call.inner;
  const T* const from = static_cast<const T*>(call.from) + outer * call.n * call.inner + inner;
  Candidate previous;
  for (std::int64_t k = 0; k < call.k; ++k) {
    Candidate best;
    for (std::int64_t i = threadIdx.x; i < call.n; i += blockDim.x) {
      const Candidate other = candidate(rank_of(from[i * call.inner]), call.most, i);
      if ((previous.index < 0 || previous.before(other, false)) && other.before(best, false))
        best = other;
    }
    best = block_first(best, false);
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

void run_arg(NumberType type, const ArgCall& call, const LaunchArgs& args) {
  with_number(type, [&]<class T>(T) {
    launch(stream_of(args), grid_of(call.outer * call.inner, call.n), arg_kernel<T>, call);
  });
}

void run_top(NumberType type, const TopCall& call, const LaunchArgs& args) {
  with_number(type, [&]<class T>(T) {
    launch(stream_of(args), grid_of(call.outer * call.inner, call.n), top_kernel<T>, call);
  });
}

}  // namespace sluice::kernels::cuda
