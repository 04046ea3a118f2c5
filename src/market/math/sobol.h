// Sobol's sequence: points that fill the unit cube evenly, as a function of their number.
#pragma once

#include <cstdint>

#include "compute/hd.h"

namespace sluice::market {

inline constexpr int kSobolDimensions = 256;
inline constexpr int kSobolBits = 32;

extern const std::uint16_t kSobolNumbers[];  // see the .cc

// directions[d][b]: what bit b of a point's number adds to coordinate d, as a fraction of 2^32.
struct SobolDirections {
  std::uint32_t at[kSobolDimensions][kSobolBits];
};
const SobolDirections& sobol_directions();

// Coordinate d of point `number`; `shift` (any word) moves the whole sequence by exclusive
// or, which keeps its evenness and makes its mean unbiased when drawn at random.
SLUICE_HD inline std::uint32_t sobol(const std::uint32_t* directions, std::uint32_t number,
                                     std::uint32_t shift = 0) {
  std::uint32_t x = shift;
  for (int b = 0; number >> b != 0; ++b) x ^= (number >> b & 1) != 0 ? directions[b] : 0;
  return x;
}

}  // namespace sluice::market
