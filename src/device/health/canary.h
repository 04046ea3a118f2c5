// Checks that a GPU computes: the last step before a lost GPU gets work again. It runs in a
// separate process, which may hang or crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::device {

struct CanaryReport {
  bool passed = false;
  std::string note;  // what was done, or what went wrong
};

struct CanaryOptions {
  std::string uuid;
  std::string demo;  // scenario; empty for real hardware
  std::optional<std::int64_t> demo_epoch_ns;
};

// Runs every query of the sampler, then computes on the GPU where that
// is possible, and says in the note when it was not. For a real NVIDIA GPU the
// environment variable CUDA_VISIBLE_DEVICES must name it and nothing else.
CanaryReport run_canary(const CanaryOptions& options);

// A kernel with a known result on a GPU, by the number that CUDA gives it; failed when there is
// none. Nothing when this build has no CUDA, or the driver is too old for it, or
// there is no memory left for it.
std::optional<CanaryReport> compute_canary(std::string& why_not, int device = 0);

}  // namespace sluice::device
