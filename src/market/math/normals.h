// Normal random numbers by Box and Muller from two words, in single precision. Both devices
// map words to (radius, angle) alike and then use approximations of their own: these here,
// good to 3e-7 of a number's size, and the GPU's instructions, good to 2e-6 (absolute).
#pragma once

#include <cmath>
#include <cstdint>

#include "market/math/fast_math.h"

namespace sluice::market::normals {

struct TwoNormals {
  float first, second;
};

// (0, 1]: 31 bits, rounded to the 24 that a float holds.
SLUICE_FLAT float uniform(std::uint32_t word) {
  return std::fma(static_cast<float>(static_cast<std::int32_t>(word >> 1)), 0x1p-31f, 0x1p-32f);
}
// [-1, 1]: the angle in units of pi.
SLUICE_FLAT float half_turns(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31f;
}

// 2^x for |x| < 126.
SLUICE_FLAT float exp2(float x) {
  using P = fast::Poly<float>;
  const float shifted = x + P::kRound, r = x - (shifted - P::kRound);
  const fast::Terms<float, 7> terms{{0.000154734466f, 0.00134004221f, 0.00961801463f, 0.0555032728f,
                                     0.240226513f, 0.693147207f, 1.0f}};
  return fast::from_bits<float>(fast::bits(fast::horner(terms, r)) +
                                (fast::bits(shifted) << P::kMantissa));
}

SLUICE_FLAT TwoNormals box_muller(std::uint32_t radius_word, std::uint32_t angle_word) {
  const float log = fast::log_ratio<fast::HostMath>(uniform(radius_word), 1.0f);
  const float radius = std::sqrt(std::fabs(-2.0f * log));
  const float turns = half_turns(angle_word), size = std::fabs(turns);
  const bool second_half = size > 0.5f;
  const float a = second_half ? 1.0f - size : size, a2 = a * a;
  const fast::Terms<float, 5> sine{
      {0.077218192f, -0.598044205f, 2.55003122f, -5.16770687f, 3.14159258f}};
  const fast::Terms<float, 6> cosine{
      {-0.0243961621f, 0.234937247f, -1.335212f, 4.05870916f, -4.93480214f, 1.0f}};
  const float c = fast::horner(cosine, a2), s = a * fast::horner(sine, a2);
  return {radius * (second_half ? -c : c), radius * std::copysign(s, turns)};
}

}  // namespace sluice::market::normals
