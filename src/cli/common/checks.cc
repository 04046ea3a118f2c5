#include "cli/common/checks.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace sluice::cli {

namespace {

// NaN when it is none.
double number_in(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end ? value : std::nan("");
}

}  // namespace

Check not_empty(std::string wanted) {
  return [wanted = std::move(wanted)](const std::string& given) {
    return given.empty() ? "is empty; give " + wanted + ", or leave the option out" : "";
  };
}

Check finite_number(std::string wanted) {
  return [wanted = std::move(wanted)](const std::string& given) -> std::string {
    if (given.empty()) return not_empty(wanted)(given);
    return std::isfinite(number_in(given)) ? "" : "'" + given + "' is not " + wanted;
  };
}

Check number_between(double low, double high) {
  return [low, high](const std::string& given) -> std::string {
    const double value = number_in(given);
    // NaN is in no range: written so that it fails.
    if (value >= low && value <= high) return {};
    return fmt::format("'{}' is not a number from {} to {}", given, low, high);
  };
}

}  // namespace sluice::cli
