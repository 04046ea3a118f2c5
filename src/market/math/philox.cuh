// Philox by a GPU's wide multiplication. Written as 64-bit arithmetic, the compiler adds an
// instruction to each of the twenty products.
#pragma once

#include "market/math/philox.h"

namespace sluice::market::philox {

struct DeviceMulHiLo {
  __device__ static HiLo mulhilo(std::uint32_t a, std::uint32_t b) {
    HiLo p;
    asm("{ .reg .u64 wide; mul.wide.u32 wide, %2, %3; mov.b64 {%0, %1}, wide; }"
        : "=r"(p.low), "=r"(p.high)
        : "r"(a), "r"(b));
    return p;
  }
};

}  // namespace sluice::market::philox
