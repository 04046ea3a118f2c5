// Measured costs as a file: JSON, one per machine, replaced as a whole.
#pragma once

#include <filesystem>
#include <string>

#include "compute/choose/costs.h"

namespace sluice::compute {

// This CPU with its usable cores, the GPU, and the program's version: costs measured on another, or
// of code that was faster or slower, are of no use.
std::string machine_name(const std::string& gpu);

// Empty when there is no file, or it is of another machine or damaged (which the log says).
Costs load_costs(const std::filesystem::path& file, const std::string& machine);

// Logs a failed write: costs are measured again.
void save_costs(const std::filesystem::path& file, const std::string& machine, const Costs& costs);

}  // namespace sluice::compute
