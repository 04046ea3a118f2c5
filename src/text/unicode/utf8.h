// UTF-8 that is known to be well-formed, code point by code point; and text that is not made so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::text {

// Bytes of the sequence that begins with `lead`.
inline std::size_t utf8_length(char lead) noexcept {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool is_tail_byte(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The code point at `at`, which it moves behind it. The text is well-formed.
inline char32_t next_code_point(std::string_view text, std::size_t& at) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  char32_t c = lead;
  std::size_t length = 1;
  if (lead >= 0xF0) {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0x80) {
    c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  at += length;
  return c;
}

// Calls visit(code point, begin, end) for each code point.
template <class Visit>
void for_each_code_point(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    visit(c, begin, at);
  }
}

std::size_t count_code_points(std::string_view text) noexcept;

bool is_ascii(std::string_view text) noexcept;

// The text itself when it is well-formed; otherwise `store`, where each ill-formed part (a maximal
// subpart of a sequence, as Unicode recommends and Rust and Python do) became U+FFFD.
std::string_view well_formed(std::string_view text, std::string& store);

}  // namespace sluice::text
