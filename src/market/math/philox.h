// Philox4x32 with 10 rounds (Salmon et al., SC 2011): random numbers as a function of a
// counter and a key, so that the same (seed, path, step) gives the same integers on every
// device and with any number of threads.
#pragma once

#include <cstdint>

#include "compute/hd.h"

namespace sluice::market::philox {

inline constexpr std::uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
inline constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
inline constexpr int kRounds = 10;

struct Words {
  std::uint32_t x0, x1, x2, x3;
};

struct Key {
  std::uint32_t k0, k1;
};

SLUICE_HD constexpr Key key_of(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

// The counter of the four numbers of `path` at `step` of stream `stream`.
SLUICE_HD constexpr Words counter(std::uint64_t path, std::uint32_t step,
                                  std::uint32_t stream = 0) {
  return {static_cast<std::uint32_t>(path), static_cast<std::uint32_t>(path >> 32), step, stream};
}

// Both halves of a product. A GPU has an instruction for it: see philox.cuh.
struct HiLo {
  std::uint32_t low, high;
};
struct HostMulHiLo {
  SLUICE_HD static constexpr HiLo mulhilo(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t p = std::uint64_t{a} * b;
    return {static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32)};
  }
};

template <class MulHiLo>
SLUICE_HD constexpr Words round(Words x, Key key) {
  const HiLo p0 = MulHiLo::mulhilo(kMultiply0, x.x0);
  const HiLo p1 = MulHiLo::mulhilo(kMultiply1, x.x2);
  return {p1.high ^ x.x1 ^ key.k0, p1.low, p0.high ^ x.x3 ^ key.k1, p0.low};
}

template <class MulHiLo = HostMulHiLo>
SLUICE_HD constexpr Words random(Words counter, Key key) {
  for (int i = 0; i < kRounds; ++i) {
    counter = round<MulHiLo>(counter, key);
    key = {key.k0 + kWeyl0, key.k1 + kWeyl1};
  }
  return counter;
}

}  // namespace sluice::market::philox
