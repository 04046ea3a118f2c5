// Linked instead of canary.cu when SLUICE_CUDA is OFF.
#include "device/health/canary.h"

namespace sluice::device {

std::optional<CanaryReport> compute_canary(std::string& why_not, int) {
  why_not = "this build has no CUDA";
  return std::nullopt;
}

}  // namespace sluice::device
