#include "base/units.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

namespace sluice {

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_rate(double per_second, const char* unit) {
  static constexpr std::array kPrefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; std::abs(per_second) >= 1000 && prefix + 1 < kPrefixes.size(); ++prefix)
    per_second /= 1000;
  const int digits = per_second < 10 ? 2 : per_second < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}/s", per_second, digits, kPrefixes[prefix], unit);
}

std::string human_duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace sluice
