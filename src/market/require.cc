#include "market/require.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice::market {

void require_range(std::string_view name, int value, int least, int most) {
  require(value >= least && value <= most,
          fmt::format("{} is {}; it may be {} to {}", name, value, least, most));
}

void require_range(std::string_view name, double value, double least, double most) {
  require(value >= least && value <= most,  // false for a NaN
          fmt::format("{} is {}; it may be {} to {}", name, value, least, most));
}

void require_length(std::string_view name, std::size_t length, std::size_t wanted) {
  require(length == wanted,
          fmt::format("{} has {} values, the first array {}", name, length, wanted));
}

}  // namespace sluice::market
