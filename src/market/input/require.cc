#include "market/input/require.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace sluice::market {

void require_range(std::string_view name, int value, int min, int max) {
  require(value >= min && value <= max,
          fmt::format("{} is {}; it may be {} to {}", name, value, min, max));
}

void require_range(std::string_view name, double value, double min, double max) {
  require(value >= min && value <= max,  // false for a NaN
          fmt::format("{} is {}; it may be {} to {}", name, value, min, max));
}

std::string short_name(std::string_view name) {
  constexpr std::size_t kMaxLength = 100;
  if (name.size() <= kMaxLength) return printable(name);
  std::size_t end = kMaxLength;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return printable(name.substr(0, end)) + "...";
}

void require_length(std::string_view name, std::size_t length, std::size_t expected) {
  require(length == expected,
          fmt::format("{} has {} values, the first array {}", name, length, expected));
}

}  // namespace sluice::market
