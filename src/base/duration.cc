#include "base/duration.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace sluice {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};

constexpr std::array kUnits = {Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000},
                               Unit{"s", 1000}, Unit{"ms", 1}};

// The longest that a configuration may ask for, 100 years; keeps casts safe.
constexpr double kMaxMs = 100 * 365 * 86'400'000.0;

std::size_t count_while(std::string_view text, bool (*is)(char)) {
  std::size_t n = 0;
  while (n < text.size() && is(text[n])) ++n;
  return n;
}

bool is_numeric(char c) { return (c >= '0' && c <= '9') || c == '.'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

std::optional<double> decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double total_ms = 0;
  std::size_t next_unit = 0;
  while (!text.empty()) {
    const auto digits = count_while(text, is_numeric);
    const auto number = decimal(text.substr(0, digits));
    text.remove_prefix(digits);
    const auto name = text.substr(0, count_while(text, is_letter));
    text.remove_prefix(name.size());
    while (next_unit < kUnits.size() && kUnits[next_unit].name != name) ++next_unit;
    if (!number || next_unit == kUnits.size()) return std::nullopt;
    total_ms += *number * static_cast<double>(kUnits[next_unit++].ms);
  }
  if (!(total_ms <= kMaxMs)) return std::nullopt;
  return Duration{total_ms / 1000};
}

std::string to_string(Duration duration) {
  auto rest = std::llround(duration.seconds * 1000);
  if (static_cast<double>(rest) / 1000 != duration.seconds) {
    char digits[512];
    const auto end =
        std::to_chars(digits, digits + sizeof digits, duration.seconds, std::chars_format::fixed)
            .ptr;
    return std::string(digits, end) + "s";
  }
  std::string text;
  for (const auto& unit : kUnits) {
    if (rest >= unit.ms) text += std::to_string(rest / unit.ms) + std::string(unit.name);
    rest %= unit.ms;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace sluice
