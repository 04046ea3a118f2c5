// Folders searched for run-time libraries before the loader's own places: beside
// the program, as in a bundle, and in the CUDA toolkit.
#pragma once

#include <string>
#include <vector>

#include "cli/common/command.h"

namespace sluice::cli {

std::vector<std::string> library_dirs(const Io& io);

}  // namespace sluice::cli
