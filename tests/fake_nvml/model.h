// Driver-reported properties of a card beyond the catalogue's.
#pragma once

#include <string_view>

namespace sluice::fake {

struct Model {
  std::string_view key;          // of the catalogue
  std::string_view driver_name;  // as nvmlDeviceGetName answers
  unsigned cores;
  unsigned sm_mhz, memory_mhz;  // highest
  unsigned nvlinks;
  unsigned nvlink_version;  // NVML's enum: 3 is 2.2, 5 is 3.1, 6 is 4.0, 7 is 5.0
  bool ecc, fan;
};

// Null for a key outside the catalogue.
const Model* find_model(std::string_view key) noexcept;

}  // namespace sluice::fake
