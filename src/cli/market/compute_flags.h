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

// With the settings' GPU switch, and the measured costs in the cache folder.
std::unique_ptr<compute::Compute> make_compute(const ComputeFlags& flags,
                                               const Environment& environment);

// What was asked of the caller: for Compute::run.
compute::Where where(const ComputeFlags& flags);

// One line: where it ran, how long it took, and why there; when --explain was given.
void explain(const ComputeFlags& flags, const compute::Outcome& outcome, std::ostream& err);

}  // namespace sluice::cli
