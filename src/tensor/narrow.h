// Storage types of 16 bits and fewer that CPUs have no arithmetic for; computation is in float.
// Conversion from float rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

namespace sluice {

// The bit layout: `exponent` and `mantissa` bits below one sign bit (or none).
struct FloatLayout {
  int exponent;
  int mantissa;
  int bias;
  bool infinity;  // all exponent bits set: infinity, and NaN with a mantissa
  bool negative_zero_is_nan;
};

// The result of overflow.
enum class Overflow { saturate, infinity };

float decode(std::uint32_t bits, const FloatLayout& layout) noexcept;
std::uint32_t encode(float value, const FloatLayout& layout, Overflow overflow) noexcept;

float half_to_float(std::uint16_t bits) noexcept;
std::uint16_t float_to_half(float value) noexcept;

struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  Half(float value) noexcept : bits(float_to_half(value)) {}
  operator float() const noexcept { return half_to_float(bits); }
};

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) noexcept {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    wide = nan ? wide | 0x00400000u : wide + 0x7fffu + ((wide >> 16) & 1u);
    bits = static_cast<std::uint16_t>(wide >> 16);
  }
  operator float() const noexcept {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};

// An 8-bit or 4-bit float. Conversion from float saturates by default, as ONNX casts do.
template <const FloatLayout& kLayout>
struct TinyFloat {
  std::uint8_t bits = 0;

  TinyFloat() = default;
  TinyFloat(float value, Overflow overflow = Overflow::saturate) noexcept
      : bits(static_cast<std::uint8_t>(encode(value, kLayout, overflow))) {}
  operator float() const noexcept { return decode(bits, kLayout); }
};

inline constexpr FloatLayout kE4M3FN{4, 3, 7, false, false};
inline constexpr FloatLayout kE4M3FNUZ{4, 3, 8, false, true};
inline constexpr FloatLayout kE5M2{5, 2, 15, true, false};
inline constexpr FloatLayout kE5M2FNUZ{5, 2, 16, false, true};
inline constexpr FloatLayout kE2M1{2, 1, 1, false, false};  // has no NaN
using Float8E4M3FN = TinyFloat<kE4M3FN>;
using Float8E4M3FNUZ = TinyFloat<kE4M3FNUZ>;
using Float8E5M2 = TinyFloat<kE5M2>;
using Float8E5M2FNUZ = TinyFloat<kE5M2FNUZ>;
using Float4E2M1 = TinyFloat<kE2M1>;

// A power of two, 2^-127 to 2^127, or NaN: the scale of a block.
struct Float8E8M0 {
  std::uint8_t bits = 0;

  Float8E8M0() = default;
  Float8E8M0(float value) noexcept;  // rounds up to the next power of two, saturating
  operator float() const noexcept;
};

// 4-bit and 2-bit integers, one per byte.
template <int kBits, bool kSigned>
struct TinyInt {
  std::int8_t value = 0;

  static constexpr int kMin = kSigned ? -(1 << (kBits - 1)) : 0;
  static constexpr int kMax = kSigned ? (1 << (kBits - 1)) - 1 : (1 << kBits) - 1;

  TinyInt() = default;
  // Keeps the low bits of `from`.
  TinyInt(int from) noexcept {
    const int low = from & ((1 << kBits) - 1);
    value = static_cast<std::int8_t>(low > kMax ? low - (1 << kBits) : low);
  }
  operator int() const noexcept { return value; }
};
using Int4 = TinyInt<4, true>;
using UInt4 = TinyInt<4, false>;
using Int2 = TinyInt<2, true>;
using UInt2 = TinyInt<2, false>;

}  // namespace sluice
