// The instructions that attention and products of bytes are made of: copies to shared memory
// that run beside, tiles of 8 x 8 from there to registers, and products of 16 x 8 x 16 on the
// tensor cores.
//
// Lane l of a warp has, of the left side and the sum, rows l / 4 and l / 4 + 8 and columns
// l % 4 * 2 and the next; of the right side, column l / 4 and rows l % 4 * 2 and the next.
#pragma once

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

// Of shared memory, as these instructions want it.
__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes to shared memory; zeros where they are not there.
__device__ inline void copy_async(unsigned to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all but the last `kLeft` groups have come.
template <int kLeft>
__device__ inline void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// Four tiles; lane l gives the address of row l % 8 of tile l / 8.
__device__ inline void load_tiles(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ inline void load_tiles_transposed(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// sum += left * right.
template <class T>
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&left)[4], unsigned right0,
                                    unsigned right1);
template <>
__device__ inline void multiply_add<__half>(float (&sum)[4], const unsigned (&left)[4],
                                            unsigned right0, unsigned right1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#endif
}
template <>
__device__ inline void multiply_add<__nv_bfloat16>(float (&sum)[4], const unsigned (&left)[4],
                                                   unsigned right0, unsigned right1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#endif
}

// Two neighbours, the first in the low half.
template <class T>
__device__ inline unsigned pair_of(float low, float high);
template <>
__device__ inline unsigned pair_of<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
template <>
__device__ inline unsigned pair_of<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

// 2^x, to about 2 units in the last place.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace sluice::kernels::cuda
