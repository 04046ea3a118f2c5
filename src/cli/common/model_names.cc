#include "cli/common/model_names.h"

#include "cli/common/program_settings.h"

namespace sluice::cli {

models::Registry registry_of(const Io& io) {
  return models::Registry(std::filesystem::path(load_settings({}, io.environment).state_dir) /
                          "models");
}

std::filesystem::path model_folder(const std::string& path_or_name, const Io& io) {
  return models::find_model(path_or_name, registry_of(io));
}

}  // namespace sluice::cli
