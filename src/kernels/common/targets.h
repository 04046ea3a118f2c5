// The instruction sets kernels are compiled for: include it before anything of Highway. Those
// left out bring nothing over the ones below them, or have vectors without a size, which cannot
// be in arrays.
#pragma once

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
