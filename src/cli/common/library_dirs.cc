#include "cli/common/library_dirs.h"

#include <filesystem>

namespace sluice::cli {

std::vector<std::string> library_dirs(const Io& io) {
  std::vector<std::string> dirs{std::filesystem::path(io.program).parent_path() / "lib"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto home = io.environment.find(name); home != io.environment.end())
      dirs.push_back(home->second + "/lib64");
  dirs.push_back("/usr/local/cuda/lib64");
  return dirs;
}

}  // namespace sluice::cli
