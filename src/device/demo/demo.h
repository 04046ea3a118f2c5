// Demonstration machines: our fake NVML library and its scenarios, both inside
// this program, so that anyone can watch eight GPUs fail on a laptop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/nvml/nvml.h"

namespace sluice::device {

struct DemoOptions {
  // When the scenario's clock read 0, in CLOCK_MONOTONIC nanoseconds; now when
  // absent. A restarted sampler passes the first one's, and the story goes on.
  std::optional<std::int64_t> epoch_ns;
  // The file that keeps settings changed by `tune` for the next process; empty: none.
  std::string state_file;
};

// Opens the fake library with the scenario `name`, one of demo_names() or the path
// of a scenario file. Throws invalid_argument for an unknown name (with the nearest
// one and the list) or a broken file, and unavailable for a scenario whose point
// is that NVML does not start. Each call opens a library of its own.
std::unique_ptr<Nvml> open_demo(const std::string& name, const DemoOptions& options = {});

// Sorted.
std::vector<std::string> demo_names();

// The scenario's JSON; throws as open_demo does.
std::string demo_scenario(const std::string& name);

// The result a canary kernel would have now on a demo GPU; nothing when `nvml` is not a
// demo or does not know the GPU.
std::optional<bool> demo_canary(const Nvml& nvml, const std::string& uuid);

// Stops the scenario's clock at `seconds` (again and again, to step through it), so
// that a test need not wait. Throws invalid_argument when `nvml` is not a demo.
void freeze_demo(const Nvml& nvml, double seconds);

}  // namespace sluice::device
