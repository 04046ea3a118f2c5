#include "engine/io/plan_magic.h"

#include <fstream>
#include <system_error>

namespace sluice::engine {

namespace fs = std::filesystem;

bool is_plan(const fs::path& file) {
  char begin[kPlanMagic.size()] = {};
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
  return std::string_view(begin, sizeof begin) == kPlanMagic;
}

}  // namespace sluice::engine
