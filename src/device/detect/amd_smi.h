// The few queries to AMD's management library, opened at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::device {

struct AmdDevice {
  std::string bus;                            // "0000:04:00.0"
  std::string uuid, name, driver;             // empty when it did not say
  std::optional<std::uint64_t> memory_total;  // bytes
};

struct AmdAnswers {
  std::vector<AmdDevice> devices;
  std::string problem;  // why there are none; empty when all went well
};

// Opens `library`, queries it, shuts it down. A missing library, symbol or answer is a
// problem or an absent value, never an error. Not thread-safe, as the library.
AmdAnswers ask_amd_smi(const std::string& library);

}  // namespace sluice::device
