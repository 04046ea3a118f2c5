#include "market/input/require.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"

namespace sluice::market {

void require_range(std::string_view name, int value, int least, int most) {
  require(value >= least && value <= most,
          fmt::format("{} is {}; it may be {} to {}", name, value, least, most));
}

void require_range(std::string_view name, double value, double least, double most) {
  require(value >= least && value <= most,  // false for a NaN
          fmt::format("{} is {}; it may be {} to {}", name, value, least, most));
}

std::string short_name(std::string_view name) {
  constexpr std::size_t kMost = 100;
  if (name.size() <= kMost) return printable(name);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return printable(name.substr(0, end)) + "...";
}

void require_length(std::string_view name, std::size_t length, std::size_t wanted) {
  require(length == wanted,
          fmt::format("{} has {} values, the first array {}", name, length, wanted));
}

}  // namespace sluice::market
