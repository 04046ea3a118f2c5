#include "cli/checks.h"

#include <fmt/core.h>

#include <charconv>

namespace sluice::cli {

Check not_empty(std::string wanted) {
  return [wanted = std::move(wanted)](const std::string& given) {
    return given.empty() ? "is empty; give " + wanted + ", or leave the option out" : "";
  };
}

Check number_between(double low, double high) {
  return [low, high](const std::string& given) -> std::string {
    double value = 0;
    const auto* end = given.data() + given.size();
    const auto [stop, failed] = std::from_chars(given.data(), end, value);
    // NaN is in no range: written so that it fails.
    if (failed == std::errc() && stop == end && value >= low && value <= high) return {};
    return fmt::format("'{}' is not a number from {} to {}", given, low, high);
  };
}

}  // namespace sluice::cli
