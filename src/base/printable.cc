#include "base/printable.h"

#include <fmt/core.h>

#include "base/utf8.h"

namespace sluice {

namespace {

std::size_t length_of(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// The code point of one well-formed character.
std::uint32_t code_point(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character.front());
  std::uint32_t point = character.size() == 1 ? first : first & (0x7fu >> character.size());
  for (const char tail : character.substr(1))
    point = point << 6 | (static_cast<unsigned char>(tail) & 0x3fu);
  return point;
}

bool is_plain(std::uint32_t c) noexcept {
  const bool is_control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  const bool is_direction = c == 0x61c || c == 0x200e || c == 0x200f ||
                            (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return !is_control && !is_direction;
}

void escape(std::string_view bytes, std::string& out) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

bool is_plain_text(std::string_view text) noexcept {
  if (first_invalid_utf8(text)) return false;
  while (!text.empty()) {
    const auto character = text.substr(0, length_of(text));
    if (!is_plain(code_point(character))) return false;
    text.remove_prefix(character.size());
  }
  return true;
}

std::string printable(std::string_view text) {
  const bool readable = !first_invalid_utf8(text);
  std::string out;
  while (!text.empty()) {
    const auto character = text.substr(0, readable ? length_of(text) : 1);
    const bool plain = (readable || static_cast<unsigned char>(text.front()) < 0x80) &&
                       is_plain(code_point(character));
    if (plain)
      out += character;
    else
      escape(character, out);
    text.remove_prefix(character.size());
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMostQuoted = 60;
  const bool long_one = text.size() > kMostQuoted;
  if (long_one) {
    auto end = kMostQuoted;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  return fmt::format("'{}{}'", printable(text), long_one ? "..." : "");
}

}  // namespace sluice
