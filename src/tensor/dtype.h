// Element types, numbered as in ONNX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

enum class DType : std::uint8_t {
  none = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,   // two f32
  c128 = 15,  // two f64
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};
inline constexpr int kDTypes = 27;

std::string_view to_string(DType type) noexcept;

// Bits of one element in a file: 2 to 128; 0 for strings and none.
int bits(DType type) noexcept;

// Bytes of one element in memory, where sub-byte types take one byte; 0 for strings and none.
inline std::size_t bytes(DType type) noexcept {
  return (static_cast<std::size_t>(bits(type)) + 7) / 8;
}

bool is_float(DType type) noexcept;    // of any width
bool is_integer(DType type) noexcept;  // of any width, not boolean

}  // namespace sluice
