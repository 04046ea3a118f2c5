#include "market/math/sobol.h"

#include <bit>

namespace sluice::market {
namespace {

SobolDirections make_directions() {
  SobolDirections s{};
  for (int b = 0; b < kSobolBits; ++b) s.at[0][b] = 1u << (31 - b);
  const std::uint16_t* numbers = kSobolNumbers;
  for (int d = 1; d < kSobolDimensions; ++d) {
    auto& v = s.at[d];
    const unsigned polynomial = *numbers++;
    const int degree = static_cast<int>(std::bit_width(polynomial)) - 1;
    for (int b = 0; b < degree; ++b) v[b] = std::uint32_t{*numbers++} << (31 - b);
    for (int b = degree; b < kSobolBits; ++b) {
      v[b] = v[b - degree] ^ (v[b - degree] >> degree);
      for (int k = 1; k < degree; ++k)
        if ((polynomial >> (degree - k) & 1) != 0) v[b] ^= v[b - k];
    }
  }
  return s;
}

}  // namespace

const SobolDirections& sobol_directions() {
  static const SobolDirections directions = make_directions();
  return directions;
}

}  // namespace sluice::market
