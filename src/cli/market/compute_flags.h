// --device and --explain, of commands that calculate.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "cli/common/program_settings.h"
#include "compute/compute.h"

namespace sluice::cli {

struct ComputeFlags {
  std::string device = "auto";
  bool explain = false;
  SettingsOptions settings;
};

void add_options(CLI::App& app, ComputeFlags& flags);  // --device, --explain, --config, --set

// Applies the settings' GPU switch and uses the measured costs in the cache folder.
std::unique_ptr<compute::Compute> make_compute(const ComputeFlags& flags,
                                               const Environment& environment);

// The requested device, for Compute::run.
compute::DevicePreference device_preference(const ComputeFlags& flags);

// With --explain, writes one line with the device, the time and the reason for the device.
void explain(const ComputeFlags& flags, const compute::Outcome& outcome, std::ostream& err);

}  // namespace sluice::cli
