#include "base/printable.h"

#include <fmt/core.h>

#include <algorithm>

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

// Control characters, separators of lines, and format characters (Unicode's category Cf), which
// turn the direction of what follows or are not seen at all; first and last of each range.
constexpr std::uint32_t kNotPlain[][2] = {
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe007f},
};

bool is_plain(std::uint32_t c) noexcept {
  for (const auto& [first, last] : kNotPlain)
    if (c <= last) return c < first;
  return true;
}

bool is_space(std::uint32_t c) noexcept {
  return c == 0x20 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

void escape(std::string_view bytes, std::string& out) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

bool has_outer_spaces(std::string_view text) noexcept {
  if (text.empty() || first_invalid_utf8(text)) return false;
  auto last = text.size() - 1;
  while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
  return is_space(code_point(text.substr(0, length_of(text)))) ||
         is_space(code_point(text.substr(last)));
}

bool is_plain_text(std::string_view text) noexcept {
  if (std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; })) return true;
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

std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const auto end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxQuoted = 60;
  const bool long_one = text.size() > kMaxQuoted;
  if (long_one) {
    auto end = kMaxQuoted;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  return fmt::format("'{}{}'", printable(text), long_one ? "..." : "");
}

}  // namespace sluice
