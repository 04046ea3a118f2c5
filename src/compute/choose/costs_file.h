// Measured costs as a file: JSON, one per machine, replaced as a whole.
#pragma once

#include <filesystem>
#include <string>

#include "compute/choose/costs.h"

namespace sluice::compute {

// Names this CPU with its usable cores, the GPU and the program's version: costs of another machine
// or version do not apply.
std::string machine_name(const std::string& gpu);

// Returns no costs when there is no file, or when it is of another machine or damaged, which is
// logged.
Costs load_costs(const std::filesystem::path& file, const std::string& machine);

// Logs a failed write: costs are measured again.
void save_costs(const std::filesystem::path& file, const std::string& machine, const Costs& costs);

}  // namespace sluice::compute
