// Where a model runs: flags that several commands share.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "engine/session.h"

namespace sluice::cli {

struct DeviceFlags {
  std::string device = "cpu", precision = "fp32";
  bool skip_padding = false;
};
void add_options(CLI::App& app, DeviceFlags& flags);  // --device, --precision
void add_skip_padding(CLI::App& app, bool& flag);     // --skip-padding

// What a session needs to run there.
struct OnDevice {
  engine::SessionOptions session;
  std::string precision;  // the one that "auto" chose
  double seconds = 0;     // that the GPU took to start
};
// Throws unavailable where the build or machine lacks the device or the device the precision.
OnDevice on_device(const DeviceFlags& flags, const std::vector<std::string>& library_dirs);

}  // namespace sluice::cli
