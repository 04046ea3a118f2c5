#include "base/printable.h"

#include <fmt/core.h>

#include "base/utf8.h"

namespace sluice {

std::string printable(std::string_view text) {
  const bool readable = !first_invalid_utf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !readable))
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
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
