#include "engine/plan/plan_cache.h"

#include <algorithm>
#include <vector>

#include "base/new_file.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

struct Kept {
  fs::path file;
  fs::file_time_type used;
  std::uint64_t bytes;
};

// Other processes may remove the same files at the same time: a missing file is not an error.
std::vector<Kept> all_in(const fs::path& folder) {
  std::vector<Kept> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".plan") continue;
    const auto used = entry.last_write_time(error);
    const auto bytes = error ? 0 : entry.file_size(error);
    if (!error) all.push_back({entry.path(), used, bytes});
    error.clear();
  }
  return all;
}

void trim(const PlanCache& cache) {
  std::vector<Kept> all = all_in(cache.folder);
  std::ranges::sort(all, [](const Kept& a, const Kept& b) { return a.used > b.used; });
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const Kept& kept : all) {
    bytes += kept.bytes;
    if (bytes > cache.max_bytes) fs::remove(kept.file, ignored);
  }
}

}  // namespace

void touch_plan(const fs::path& file) {
  std::error_code ignored;  // the file may belong to another user
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
}

bool put_plan(const PlanCache& cache, const Plan& plan) {
  const fs::path file = plan_file(cache.folder, plan.key);
  write_plan(file, plan);
  NewFile::remove_leftovers(cache.folder);
  trim(cache);
  std::error_code ignored;
  return fs::exists(file, ignored);
}

}  // namespace sluice::engine
