#include "tensor/narrow.h"

#include <bit>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

std::uint32_t mask(int bits) { return (1u << bits) - 1u; }

// The bits of the largest finite value, without sign.
std::uint32_t largest(const FloatLayout& f) {
  const std::uint32_t all = mask(f.exponent + f.mantissa);
  if (f.infinity) return all - mask(f.mantissa) - 1;  // below infinity
  if (f.negative_zero_is_nan || f.exponent < 4) return all;
  return all - 1;  // all ones is the NaN
}

std::uint32_t nan_bits(const FloatLayout& f) {
  if (f.negative_zero_is_nan) return 1u << (f.exponent + f.mantissa);
  return mask(f.exponent + f.mantissa);
}

bool is_nan_bits(std::uint32_t bits, const FloatLayout& f) {
  const std::uint32_t sign = 1u << (f.exponent + f.mantissa);
  if (f.negative_zero_is_nan) return bits == sign;
  const std::uint32_t magnitude = bits & (sign - 1);
  if (f.infinity) return magnitude > largest(f) + 1;
  return f.exponent >= 4 && magnitude == sign - 1;
}

// The magnitude as encoded bits, rounded to even.
std::uint32_t round_magnitude(float value, const FloatLayout& f) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);                        // value in [0.5, 1) * 2^exponent
  const int lowest = 1 - f.bias;                       // of a normal number
  const int leading = std::max(exponent - 1, lowest);  // exponent of the leading bit
  const float units = std::nearbyint(std::ldexp(value, f.mantissa - leading));
  const auto count = static_cast<std::uint32_t>(units);
  // The bits of a subnormal are its mantissa; the leading bit of a normal number carries into the
  // exponent.
  return count + (static_cast<std::uint32_t>(leading - lowest) << f.mantissa);
}

}  // namespace

float decode(std::uint32_t bits, const FloatLayout& f) noexcept {
  if (is_nan_bits(bits, f)) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t sign = bits >> (f.exponent + f.mantissa) & 1u;
  const std::uint32_t magnitude = bits & mask(f.exponent + f.mantissa);
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  float value;
  if (f.infinity && magnitude == largest(f) + 1) {
    value = std::numeric_limits<float>::infinity();
  } else {
    const std::uint32_t fraction = magnitude & mask(f.mantissa);
    const std::uint32_t steps = exponent > 0 ? fraction | 1u << f.mantissa : fraction;
    value = std::ldexp(static_cast<float>(steps), std::max(exponent, 1) - f.bias - f.mantissa);
  }
  return sign != 0 ? -value : value;
}

std::uint32_t encode(float value, const FloatLayout& f, Overflow overflow) noexcept {
  const std::uint32_t sign = std::signbit(value) ? 1u << (f.exponent + f.mantissa) : 0u;
  const bool has_nan = f.exponent >= 4;
  if (std::isnan(value) && !has_nan) return 1u << (f.exponent + f.mantissa);  // -0
  if (std::isnan(value)) return nan_bits(f) | (f.negative_zero_is_nan ? 0u : sign);
  const std::uint32_t max = largest(f);
  const bool endless = std::isinf(value);
  std::uint32_t magnitude = endless ? max + 1 : round_magnitude(std::fabs(value), f);
  if (magnitude > max) {
    if (overflow == Overflow::infinity && has_nan)
      return f.infinity ? sign | (max + 1) : nan_bits(f) | (f.negative_zero_is_nan ? 0u : sign);
    magnitude = max;
  }
  if (magnitude == 0 && f.negative_zero_is_nan) return 0;
  return sign | magnitude;
}

float half_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The exponent is off by 127 - 15; a multiplication corrects it, for subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

std::uint16_t float_to_half(float value) noexcept {
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = wide >> 16 & 0x8000u;
  std::uint32_t magnitude = wide & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: the addition rounds
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  magnitude += 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | (magnitude - 0x38000000u) >> 13);
}

Float8E8M0::Float8E8M0(float value) noexcept {
  if (std::isnan(value)) {
    bits = 0xff;
    return;
  }
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(std::fabs(value));
  // 2^-127 is a subnormal float: half of the smallest normal one.
  const std::uint32_t exponent =
      wide <= 0x400000u ? 0u : (wide >> 23) + ((wide & 0x7fffffu) != 0 ? 1u : 0u);
  bits = static_cast<std::uint8_t>(std::min(exponent, 254u));
}

Float8E8M0::operator float() const noexcept {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, bits - 127);
}

}  // namespace sluice
