// Products of bytes, or halves, by Hopper's groups of four warps, 64 x 64, 112 or 128, both
// sides straight from shared memory. They are under way until they are awaited.
#pragma once

namespace sluice::kernels::cuda {

// 64 rows, or as many columns, of kDepth bytes each.
template <int kDepth>
__device__ unsigned long long side_at(unsigned address) {
  constexpr unsigned long long kNextRows = 8 * kDepth / 16, kTurned = kDepth == 64 ? 2 : 1;
  return (address & 0x3ffff) >> 4 | 1ull << 16 | kNextRows << 32 | kTurned << 62;
}

// Before sums are added to, after all of it, and until all but the last kLeft are there.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

#define SLUICE_SUMS_8(kind, i)                                                        \
  "+" kind(sum[i]), "+" kind(sum[i + 1]), "+" kind(sum[i + 2]), "+" kind(sum[i + 3]), \
      "+" kind(sum[i + 4]), "+" kind(sum[i + 5]), "+" kind(sum[i + 6]), "+" kind(sum[i + 7])
#define SLUICE_SUMS_32(kind, i)                                                    \
  SLUICE_SUMS_8(kind, i), SLUICE_SUMS_8(kind, i + 8), SLUICE_SUMS_8(kind, i + 16), \
      SLUICE_SUMS_8(kind, i + 24)
#define SLUICE_PRODUCT_64(types, kind, more)                                                      \
  asm volatile(                                                                                   \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n64" types         \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "        \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, yes" more \
      ";}"                                                                                        \
      : SLUICE_SUMS_32(kind, 0)                                                                   \
      : "l"(left), "l"(right))
#define SLUICE_PRODUCT_112(types, kind, more)                                              \
  asm volatile(                                                                            \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n112" types \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "   \
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "   \
      "%50, %51, %52, %53, %54, %55}, %56, %57, yes" more ";}"                             \
      : SLUICE_SUMS_32(kind, 0), SLUICE_SUMS_8(kind, 32), SLUICE_SUMS_8(kind, 40),         \
        SLUICE_SUMS_8(kind, 48)                                                            \
      : "l"(left), "l"(right))
#define SLUICE_PRODUCT_128(types, kind, more)                                                     \
  asm volatile(                                                                                   \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; wgmma.mma_async.sync.aligned.m64n128" types        \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "        \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "          \
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "          \
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, yes" more \
      ";}"                                                                                        \
      : SLUICE_SUMS_32(kind, 0), SLUICE_SUMS_32(kind, 32)                                         \
      : "l"(left), "l"(right))

using Side = unsigned long long;
#define SLUICE_PRODUCTS(Name, SumOf, types, kind, more)                 \
  struct Name {                                                         \
    using Sum = SumOf;                                                  \
    __device__ static void add(Sum (&sum)[32], Side left, Side right) { \
      SLUICE_PRODUCT_64(types, kind, more);                             \
    }                                                                   \
    __device__ static void add(Sum (&sum)[56], Side left, Side right) { \
      SLUICE_PRODUCT_112(types, kind, more);                            \
    }                                                                   \
    __device__ static void add(Sum (&sum)[64], Side left, Side right) { \
      SLUICE_PRODUCT_128(types, kind, more);                            \
    }                                                                   \
  }
SLUICE_PRODUCTS(UnsignedBySigned, int, "k32.s32.u8.s8", "r", "");
SLUICE_PRODUCTS(SignedBySigned, int, "k32.s32.s8.s8", "r", "");
SLUICE_PRODUCTS(Halves, float, "k16.f32.f16.f16", "f", ", 1, 1, 0, 0");
SLUICE_PRODUCTS(BHalves, float, "k16.f32.bf16.bf16", "f", ", 1, 1, 0, 0");

#undef SLUICE_PRODUCTS
#undef SLUICE_PRODUCT_128
#undef SLUICE_PRODUCT_112
#undef SLUICE_PRODUCT_64
#undef SLUICE_SUMS_32
#undef SLUICE_SUMS_8

}  // namespace sluice::kernels::cuda
