// A length of time as people write it in a configuration: 30s, 5m, 1h30m, 250ms, 2d.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct Duration {
  double seconds = 0;
  friend bool operator==(const Duration&, const Duration&) = default;
};

// Units d, h, m, s, ms, each at most once and in that order, each after a decimal
// number. Nothing for anything else: no unit, no number, a sign, a blank inside.
std::optional<Duration> parse_duration(std::string_view text);

// The shortest text that parse_duration reads as the same length.
std::string to_string(Duration duration);

}  // namespace sluice
