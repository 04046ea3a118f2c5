// Instructions of sm_80 that attention and the int8 GEMM use: cp.async, ldmatrix and mma.
//
// In the fragments of mma.m16n8k16 lane l holds, of A and the accumulators, rows l / 4 and l / 4 +
// 8 and columns l % 4 * 2 and the next; of B, column l / 4 and rows l % 4 * 2 and the next.
#pragma once

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

// An address in the shared window, as the PTX instructions take it.
__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Copies 16 bytes to shared memory; writes zeros where `valid` is false.
__device__ inline void cp_async_16(unsigned to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
#endif
}
__device__ inline void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most `kPending` groups are in flight.
template <int kPending>
__device__ inline void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Loads four 8 x 8 matrices of b16; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void ldmatrix_x4(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ inline void ldmatrix_x4_trans(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// sum += a * b, mma.m16n8k16 with f32 accumulators.
template <class T>
__device__ inline void mma_m16n8k16(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1);
template <>
__device__ inline void mma_m16n8k16<__half>(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                            unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
template <>
__device__ inline void mma_m16n8k16<__nv_bfloat16>(float (&sum)[4], const unsigned (&a)[4],
                                                   unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Packs two values as T, the first in the low half.
template <class T>
__device__ inline unsigned pack2(float low, float high);
template <>
__device__ inline unsigned pack2<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
template <>
__device__ inline unsigned pack2<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

// 2^x to about 2 ulp (ex2.approx).
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The log of sum * 2^row_max, for the row maximum and sum of an online softmax in base 2.
__device__ inline float log_sum_exp(float row_max, float sum) {
  return (row_max + log2f(sum)) * 0.693147180559945309f;
}

}  // namespace sluice::kernels::cuda
