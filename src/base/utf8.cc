#include "base/utf8.h"

namespace sluice {

namespace {

bool is_tail(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the well-formed sequence at the front; 0 when it is not one.
std::size_t sequence(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return is_tail(at(1)) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    const bool good = (a != 0xE0 || b >= 0xA0) && (a != 0xED || b <= 0x9F);
    return good && is_tail(at(1)) && is_tail(at(2)) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool good = (a != 0xF0 || b >= 0x90) && (a != 0xF4 || b <= 0x8F);
    return good && is_tail(at(1)) && is_tail(at(2)) && is_tail(at(3)) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto n = sequence(text.substr(i));
    if (n == 0) return i;
    i += n;
  }
  return std::nullopt;
}

void append_utf8(std::string& text, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F));
  put(0x80 | (c & 0x3F));
}

}  // namespace sluice
