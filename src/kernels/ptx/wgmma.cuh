// wgmma of sm_90a (Hopper): a warpgroup multiplies A (64 rows) and B (32, 64, 112, 128 or 192
// columns), both in shared memory. The instructions are asynchronous: fence, mma, commit, then
// wait. And what goes with it: stmatrix, which stores accumulators, and setmaxnreg.
#pragma once

namespace sluice::kernels::cuda {

using MatrixDescriptor = unsigned long long;

// A shared memory matrix descriptor for rows (or columns) of kDepth bytes, swizzled over 64 or 128.
template <int kDepth>
__device__ MatrixDescriptor swizzled_descriptor(unsigned address) {
  constexpr unsigned long long kStride = 8 * kDepth / 16, kSwizzle = kDepth == 64 ? 2 : 1;
  return (address & 0x3ffff) >> 4 | 1ull << 16 | kStride << 32 | kSwizzle << 62;
}

// Orders register and shared memory accesses before wgmma; ends a group of wgmma; waits until at
// most kPending groups are in flight.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define SLUICE_ACC_8(kind, i)                                                         \
  "+" kind(sum[i]), "+" kind(sum[i + 1]), "+" kind(sum[i + 2]), "+" kind(sum[i + 3]), \
      "+" kind(sum[i + 4]), "+" kind(sum[i + 5]), "+" kind(sum[i + 6]), "+" kind(sum[i + 7])
#define SLUICE_ACC_32(kind, i)                                                  \
  SLUICE_ACC_8(kind, i), SLUICE_ACC_8(kind, i + 8), SLUICE_ACC_8(kind, i + 16), \
      SLUICE_ACC_8(kind, i + 24)
#define SLUICE_WGMMA_N32(types, kind, more)                                                        \
  asm volatile("{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n32" types \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, "    \
               "%17, yes" more ";}"                                                                \
               : SLUICE_ACC_8(kind, 0), SLUICE_ACC_8(kind, 8)                                      \
               : "l"(a), "l"(b))
#define SLUICE_WGMMA_N64(types, kind, more)                                                       \
  asm volatile(                                                                                   \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n64" types         \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "        \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, yes" more \
      ";}"                                                                                        \
      : SLUICE_ACC_32(kind, 0)                                                                    \
      : "l"(a), "l"(b))
#define SLUICE_WGMMA_N112(types, kind, more)                                               \
  asm volatile(                                                                            \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n112" types \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "   \
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "   \
      "%50, %51, %52, %53, %54, %55}, %56, %57, yes" more ";}"                             \
      : SLUICE_ACC_32(kind, 0), SLUICE_ACC_8(kind, 32), SLUICE_ACC_8(kind, 40),            \
        SLUICE_ACC_8(kind, 48)                                                             \
      : "l"(a), "l"(b))
#define SLUICE_WGMMA_N128(types, kind, more)                                                      \
  asm volatile(                                                                                   \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n128" types        \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "        \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "          \
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "          \
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, yes" more \
      ";}"                                                                                        \
      : SLUICE_ACC_32(kind, 0), SLUICE_ACC_32(kind, 32)                                           \
      : "l"(a), "l"(b))
#define SLUICE_WGMMA_N192(types, kind, more)                                                   \
  asm volatile(                                                                                \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n192" types     \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "       \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "       \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "       \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "       \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, %96, " \
      "%97, yes" more ";}"                                                                     \
      : SLUICE_ACC_32(kind, 0), SLUICE_ACC_32(kind, 32), SLUICE_ACC_32(kind, 64)               \
      : "l"(a), "l"(b))

#define SLUICE_WGMMA_TYPE(Name, SumOf, types, kind, more)                                \
  struct Name {                                                                          \
    using Sum = SumOf;                                                                   \
    __device__ static void mma(Sum (&sum)[16], MatrixDescriptor a, MatrixDescriptor b) { \
      SLUICE_WGMMA_N32(types, kind, more);                                               \
    }                                                                                    \
    __device__ static void mma(Sum (&sum)[32], MatrixDescriptor a, MatrixDescriptor b) { \
      SLUICE_WGMMA_N64(types, kind, more);                                               \
    }                                                                                    \
    __device__ static void mma(Sum (&sum)[56], MatrixDescriptor a, MatrixDescriptor b) { \
      SLUICE_WGMMA_N112(types, kind, more);                                              \
    }                                                                                    \
    __device__ static void mma(Sum (&sum)[64], MatrixDescriptor a, MatrixDescriptor b) { \
      SLUICE_WGMMA_N128(types, kind, more);                                              \
    }                                                                                    \
    __device__ static void mma(Sum (&sum)[96], MatrixDescriptor a, MatrixDescriptor b) { \
      SLUICE_WGMMA_N192(types, kind, more);                                              \
    }                                                                                    \
  }
SLUICE_WGMMA_TYPE(WgmmaU8S8, int, "k32.s32.u8.s8", "r", "");
SLUICE_WGMMA_TYPE(WgmmaS8S8, int, "k32.s32.s8.s8", "r", "");
SLUICE_WGMMA_TYPE(WgmmaF16, float, "k16.f32.f16.f16", "f", ", 1, 1, 0, 0");
SLUICE_WGMMA_TYPE(WgmmaBf16, float, "k16.f32.bf16.bf16", "f", ", 1, 1, 0, 0");

#undef SLUICE_WGMMA_TYPE
#undef SLUICE_WGMMA_N192
#undef SLUICE_WGMMA_N128
#undef SLUICE_WGMMA_N112
#undef SLUICE_WGMMA_N64
#undef SLUICE_WGMMA_N32
#undef SLUICE_ACC_32
#undef SLUICE_ACC_8

// Stores four 8 x 8 matrices of b16; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void stmatrix_x4(unsigned to, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// A barrier of the 128 threads of a warpgroup, each of which has its own.
__device__ inline void sync_warpgroup(unsigned warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

// Moves registers between warpgroups: the block's registers at its start are what can be had.
template <int kRegisters>
__device__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace sluice::kernels::cuda
