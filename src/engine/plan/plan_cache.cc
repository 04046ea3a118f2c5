#include "engine/plan/plan_cache.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "engine/io/content_hash.h"
#include "engine/plan/plan.h"
#include "engine/plan/plan_key.h"
#include "formats/onnx/message.h"

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

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

fs::path plan_file(const fs::path& folder, const PlanKey& key) {
  const onnx::Message named = key_message({.model = key.model,
                                           .device = key.device,
                                           .software = "",
                                           .precision = key.precision,
                                           .version = ""});
  return folder / (hex(plan_hash(named.text())) + ".plan");
}

std::optional<fs::path> PlanCache::find(const PlanKey& key) const {
  if (folder.empty()) return std::nullopt;
  std::error_code ignored;
  fs::path file = plan_file(folder, key);
  return fs::exists(file, ignored) ? std::optional(std::move(file)) : std::nullopt;
}

bool PlanCache::put(const Plan& plan) const {
  const fs::path file = plan_file(folder, plan.key);
  write_plan(file, plan);
  NewFile::remove_leftovers(folder);
  trim(*this);
  std::error_code ignored;
  return fs::exists(file, ignored);
}

void PlanCache::touch(const fs::path& plan) {
  std::error_code ignored;  // the file may belong to another user
  fs::last_write_time(plan, fs::file_time_type::clock::now(), ignored);
}

}  // namespace sluice::engine
