#include "device/reading.h"

namespace sluice::device {

namespace {

struct Bit {
  std::uint64_t mask;
  std::string_view name;
  bool severe;  // heat or a power brake, not the ordinary power cap
};

// NVML's clocks-event bits that hold the clock back. Idle (0x1), application
// clocks (0x2), sync boost (0x10) and display clocks (0x100) are no faults.
constexpr Bit kBits[] = {
    {0x04, "power cap", false},           {0x08, "hardware slowdown", true},
    {0x20, "thermal slowdown", true},     {0x40, "hardware thermal slowdown", true},
    {0x80, "hardware power brake", true},
};

}  // namespace

std::vector<std::string_view> throttle_names(std::uint64_t bits) {
  std::vector<std::string_view> names;
  for (const auto& bit : kBits)
    if ((bits & bit.mask) != 0) names.push_back(bit.name);
  return names;
}

bool is_thermal_or_power_throttle(std::uint64_t bits) noexcept {
  for (const auto& bit : kBits)
    if (bit.severe && (bits & bit.mask) != 0) return true;
  return false;
}

}  // namespace sluice::device
