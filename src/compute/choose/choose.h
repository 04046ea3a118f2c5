// Chooses CPU or GPU for a call: a pure function without clock, device or lock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "compute/choose/costs.h"

namespace sluice::compute {

enum class DevicePreference { automatic, cpu, gpu };
// The preference named "auto", "cpu" or "gpu".
std::optional<DevicePreference> device_preference_from(std::string_view name) noexcept;

struct ChoiceQuery {
  std::string_view operation;
  double work = 0;                          // of all items
  std::size_t bytes_in = 0, bytes_out = 0;  // to copy to the GPU and back
  DevicePreference preference = DevicePreference::automatic;
  std::string gpu_unusable{};  // why no GPU can be used; empty when one can
};

struct Choice {
  Processor on = Processor::cpu;
  std::optional<double> cpu_s, gpu_s;  // expected, copies included; absent: not known yet
  std::string reason;                  // one sentence
};

// Chooses the processor with the lower expected time. An unmeasured one is tried: the CPU first,
// the GPU unless copying alone would take longer; a loser that is near and was tried less than
// kTries times is tried again, since one slow run proves little.
inline constexpr int kTries = 3;
Choice choose(const ChoiceQuery& query, const Costs& costs);

}  // namespace sluice::compute
