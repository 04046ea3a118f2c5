// The instruction sets that kernels are compiled for; include it before Highway. The excluded ones
// are no faster than the ones below them, or have vectors without a fixed size, which cannot be
// array elements.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
