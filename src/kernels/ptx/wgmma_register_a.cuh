// wgmma with A in registers: 64 rows times B of 64 or 32 columns in shared memory. Lane l of warp w
// holds of A, and of the accumulators, what mma.m16n8k16 gives it (mma.cuh), of rows 16 w to 16 w
// + 15.
#pragma once

#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {

#define SLUICE_SUM(n) "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
#define SLUICE_SUM_4(n) SLUICE_SUM(n), SLUICE_SUM(n + 1), SLUICE_SUM(n + 2), SLUICE_SUM(n + 3)
#define SLUICE_WGMMA_REGISTER_A(type)                                                             \
  /* more: adds to the accumulators */                                                            \
  template <int kTransposeB>                                                                      \
  __device__ static void mma(float(&sum)[8][4], const unsigned(&a)[4], MatrixDescriptor b,        \
                             int more) {                                                          \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %37, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, "      \
        "%35}, %36, more, 1, 1, %38;}"                                                            \
        : SLUICE_SUM_4(0), SLUICE_SUM_4(4)                                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more), "n"(kTransposeB));       \
  }                                                                                               \
  template <int kTransposeB>                                                                      \
  __device__ static void mma(float(&sum)[4][4], const unsigned(&a)[4], MatrixDescriptor b,        \
                             int more) {                                                          \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %21, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, "    \
        "%18, %19}, %20, more, 1, 1, %22;}"                                                       \
        : SLUICE_SUM_4(0)                                                                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more), "n"(kTransposeB));       \
  }

template <class T>
struct WgmmaRegisterA;
template <>
struct WgmmaRegisterA<__half> {
  SLUICE_WGMMA_REGISTER_A("f16")
};
template <>
struct WgmmaRegisterA<__nv_bfloat16> {
  SLUICE_WGMMA_REGISTER_A("bf16")
};
#undef SLUICE_WGMMA_REGISTER_A
#undef SLUICE_SUM_4
#undef SLUICE_SUM

// Keeps the compiler from moving accesses to registers of wgmma in flight across this point.
template <int N>
__device__ void fence_registers(unsigned (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+r"(four[0]), "+r"(four[1]), "+r"(four[2]), "+r"(four[3])::"memory");
}
template <int N>
__device__ void fence_registers(float (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])::"memory");
}

}  // namespace sluice::kernels::cuda
