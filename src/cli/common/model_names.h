// Models by name: the registry in the state folder of the settings.
#pragma once

#include <filesystem>
#include <string>

#include "cli/common/command.h"
#include "models/registry/registry.h"

namespace sluice::cli {

models::Registry registry_of(const Io& io);

// The folder of a path, or of a model in the registry. Throws not_found with advice.
std::filesystem::path model_folder(const std::string& path_or_name, const Io& io);

}  // namespace sluice::cli
