// The plan cache: plan files in a folder, with a limit in bytes; the least recently used go first.
//
// The key is the hash of a PlanKey's model, device and precision: the name of the file, see
// plan_file(). Version and software are not in it. They are verified after opening (why_stale(), by
// open_model()), and a plan of another version, or for other software, is replaced under its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sluice::engine {

struct Plan;
struct PlanKey;

// Several processes may share a folder: a file that another one removes is not an error.
struct PlanCache {
  std::filesystem::path folder{};  // empty: plans are not cached
  std::uint64_t max_bytes = std::uint64_t{10} << 30;

  // The file with this key, if there is one; it may be stale or damaged.
  std::optional<std::filesystem::path> find(const PlanKey& key) const;

  // Writes a plan to plan_file(), then removes the least recently used plans until the rest fits,
  // and temporary files of killed writers. False if the plan alone is too large. Throws like
  // write_plan().
  bool put(const Plan& plan) const;

  // Marks a plan as recently used.
  static void touch(const std::filesystem::path& plan);
};

// FOLDER/HASH.plan, by the key above, whether it exists or not.
std::filesystem::path plan_file(const std::filesystem::path& folder, const PlanKey& key);

}  // namespace sluice::engine
