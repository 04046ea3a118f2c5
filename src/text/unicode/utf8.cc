#include "text/unicode/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/utf8.h"

namespace sluice::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the ill-formed part at the front: as many as could begin a sequence, at least one.
std::size_t ill_formed_part(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned a = byte(0), b = byte(1);
  const bool tail = (b & 0xC0) == 0x80;
  if (a >= 0xE0 && a <= 0xEF)
    return tail && (a != 0xE0 || b >= 0xA0) && (a != 0xED || b <= 0x9F) ? 2 : 1;
  if (a < 0xF0 || a > 0xF4 || !tail || (a == 0xF0 && b < 0x90) || (a == 0xF4 && b > 0x8F)) return 1;
  return (byte(2) & 0xC0) == 0x80 ? 3 : 2;
}

}  // namespace

std::size_t count_code_points(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !is_tail_byte(byte); }));
}

bool is_ascii(std::string_view text) noexcept {
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, text.data() + at, 8);
    if (eight & kHigh) return false;
  }
  return std::ranges::all_of(text.substr(at), [](char c) { return (c & 0x80) == 0; });
}

std::string_view well_formed(std::string_view text, std::string& store) {
  if (is_ascii(text)) return text;
  auto bad = first_invalid_utf8(text);
  if (!bad) return text;
  store.clear();
  while (bad) {
    store.append(text.substr(0, *bad)).append(kReplacement);
    text.remove_prefix(*bad);
    text.remove_prefix(std::min(text.size(), ill_formed_part(text)));
    bad = first_invalid_utf8(text);
  }
  return store.append(text);
}

}  // namespace sluice::text
