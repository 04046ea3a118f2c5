#include "kernels/common/activation.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/grid.cuh"
#include "kernels/gemm/epilogue_kernel.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Avoids a 64-bit division where possible: it would take longer than the rest of the kernel.
__device__ unsigned column_of(long long i, unsigned a_row) {
  if (i >> 32 != 0) return static_cast<unsigned>(i % a_row);
  return static_cast<unsigned>(i) % a_row;
}

// Limit: memory; x is read and written, the other operands are read once.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    gemm_epilogue(T* x, long long packs, unsigned packs_a_row, const T* bias, const T* residual,
                  const T* residual_after, Activation activation, float low, float high) {
  using P = Pack<T, N>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  P result = reinterpret_cast<P*>(x)[i];
  P shift{}, first{}, last{};
  if (bias != nullptr) shift = reinterpret_cast<const P*>(bias)[column_of(i, packs_a_row)];
  if (residual != nullptr) first = reinterpret_cast<const P*>(residual)[i];
  if (residual_after != nullptr) last = reinterpret_cast<const P*>(residual_after)[i];
  float value[N];
#pragma unroll
  for (int e = 0; e < N; ++e) {
    value[e] = wide(result.at[e]);
    if (bias != nullptr) value[e] += wide(shift.at[e]);
    if (residual != nullptr) value[e] += wide(first.at[e]);
  }
  activate<sizeof(T) == 2>(value, activation, low, high);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (residual_after != nullptr) value[e] += wide(last.at[e]);
    result.at[e] = narrow<T>(value[e]);
  }
  reinterpret_cast<P*>(x)[i] = result;
}

template <class T, int N>
void enqueue_as(const EpilogueCall& a, cudaStream_t stream) {
  const long long packs = a.rows * a.n / N;
  if (packs == 0) return;
  launch(stream, one_each(packs, kThreads), gemm_epilogue<T, N>, static_cast<T*>(a.x), packs,
         static_cast<unsigned>(a.n / N), static_cast<const T*>(a.bias),
         static_cast<const T*>(a.residual), static_cast<const T*>(a.residual_after), a.activation,
         a.low, a.high);
}

template <class T>
void enqueue_of(const EpilogueCall& a, cudaStream_t stream) {
  constexpr int kVector = 16 / sizeof(T);
  const bool is_aligned = a.bias == nullptr ? a.rows * a.n % kVector == 0 : a.n % kVector == 0;
  return is_aligned ? enqueue_as<T, kVector>(a, stream) : enqueue_as<T, 1>(a, stream);
}

}  // namespace

void enqueue_epilogue(const EpilogueCall& call, CUstream_st* stream) {
  switch (call.type) {
    case RealType::f32: return enqueue_of<float>(call, stream);
    case RealType::f16: return enqueue_of<__half>(call, stream);
    case RealType::bf16: return enqueue_of<__nv_bfloat16>(call, stream);
  }
}

}  // namespace sluice::kernels::cuda
