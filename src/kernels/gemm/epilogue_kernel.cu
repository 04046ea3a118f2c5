#include "kernels/common/activation.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/grid.cuh"
#include "kernels/gemm/epilogue_kernel.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// A division of 64 bits takes longer than all the rest.
__device__ unsigned column_of(long long i, unsigned a_row) {
  if (i >> 32 != 0) return static_cast<unsigned>(i % a_row);
  return static_cast<unsigned>(i) % a_row;
}

// Limit: memory, each of x (twice), before and behind once.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    apply(T* x, long long packs, unsigned packs_a_row, const T* bias, const T* before,
          const T* behind, Activation activation, float low, float high) {
  using P = Pack<T, N>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  P mine = reinterpret_cast<P*>(x)[i];
  P shift{}, first{}, last{};
  if (bias != nullptr) shift = reinterpret_cast<const P*>(bias)[column_of(i, packs_a_row)];
  if (before != nullptr) first = reinterpret_cast<const P*>(before)[i];
  if (behind != nullptr) last = reinterpret_cast<const P*>(behind)[i];
  float value[N];
#pragma unroll
  for (int e = 0; e < N; ++e) {
    value[e] = wide(mine.at[e]);
    if (bias != nullptr) value[e] += wide(shift.at[e]);
    if (before != nullptr) value[e] += wide(first.at[e]);
  }
  activate<sizeof(T) == 2>(value, activation, low, high);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (behind != nullptr) value[e] += wide(last.at[e]);
    mine.at[e] = narrow<T>(value[e]);
  }
  reinterpret_cast<P*>(x)[i] = mine;
}

template <class T, int N>
void enqueue_as(const After& a, cudaStream_t stream) {
  const long long packs = a.rows * a.n / N;
  if (packs == 0) return;
  launch(stream, one_each(packs, kThreads), apply<T, N>, static_cast<T*>(a.x), packs,
         static_cast<unsigned>(a.n / N), static_cast<const T*>(a.bias),
         static_cast<const T*>(a.before), static_cast<const T*>(a.behind), a.activation, a.low,
         a.high);
}

template <class T>
void enqueue_of(const After& a, cudaStream_t stream) {
  constexpr int kMost = 16 / sizeof(T);
  const bool whole = a.bias == nullptr ? a.rows * a.n % kMost == 0 : a.n % kMost == 0;
  return whole ? enqueue_as<T, kMost>(a, stream) : enqueue_as<T, 1>(a, stream);
}

}  // namespace

void enqueue(const After& after, CUstream_st* stream) {
  switch (after.type) {
    case RealType::f32: return enqueue_of<float>(after, stream);
    case RealType::f16: return enqueue_of<__half>(after, stream);
    case RealType::bf16: return enqueue_of<__nv_bfloat16>(after, stream);
  }
}

}  // namespace sluice::kernels::cuda
