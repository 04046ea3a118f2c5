#include "device/host/cgroup.h"

#include <algorithm>
#include <system_error>
#include <vector>

namespace sluice::device {

namespace {

// Version 1 says "no limit" with a number near 2^63.
constexpr std::uint64_t kUnlimited = 1ull << 60;

struct Mount {
  std::string source;  // the group this mount shows as its top, e.g. "/docker/4f2a"
  Path at;             // where, below the root we were given
};

// One controller as seen by this process: the groups to ask, ours first.
using Chain = std::vector<Path>;

bool has_word(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::ranges::find(words, word) != words.end();
}

// mountinfo: id parent major:minor source point options... - type device super
std::optional<Mount> find_mount(const Path& root, std::string_view mountinfo,
                                std::string_view controller) {
  for (const auto line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' ');
    const auto after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool matches = controller.empty()
                             ? after[0] == "cgroup2"
                             : after[0] == "cgroup" && has_word(after[2], controller);
    if (matches) return Mount{std::string(before[3]), under(root, before[4])};
  }
  return std::nullopt;
}

// /proc/self/cgroup: id:controllers:path; version 2 has no controllers.
std::optional<std::string> own_group(std::string_view groups, std::string_view controller) {
  for (const auto line : split(groups, '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_word(names, controller))
      return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

Chain chain_of(const Path& root, std::string_view groups, std::string_view mountinfo,
               std::string_view controller) {
  const auto mount = find_mount(root, mountinfo, controller);
  const auto group = own_group(groups, controller);
  if (!mount || !group) return {};
  std::string_view below = *group;
  // Without a namespace the path is the host's, and the mount shows only our part.
  if (mount->source != "/" && (*group + "/").starts_with(mount->source + "/"))
    below.remove_prefix(mount->source.size());
  // A path that leaves the namespace ("/../..") cannot be followed.
  if (below.find("..") != std::string_view::npos) below = "/";

  Chain chain;
  Path relative = Path(below).relative_path();
  for (;;) {
    std::error_code ignored;
    const auto folder = relative.empty() ? mount->at : mount->at / relative;
    if (std::filesystem::is_directory(folder, ignored)) chain.push_back(folder);
    if (relative.empty()) return chain;
    relative = relative.parent_path();
  }
}

// CPU time of a group: "usage_usec 123" in version 2, nanoseconds in version 1.
std::optional<double> cpu_used_s(const Path& group) {
  if (const auto ns = read_int(group / "cpuacct.usage")) return static_cast<double>(*ns) * 1e-9;
  const auto stat = read_text(group / "cpu.stat").value_or("");
  constexpr std::string_view kKey = "usage_usec ";
  for (const auto line : split(stat, '\n'))
    if (line.starts_with(kKey))
      if (const auto us = to_int(line.substr(kKey.size()))) return static_cast<double>(*us) * 1e-6;
  return std::nullopt;
}

void tighten(CgroupLimits& limits, std::optional<double> quota, const Path& group) {
  if (!quota || (limits.cpus && *limits.cpus <= *quota)) return;
  limits.cpus = quota;
  limits.cpu_used_s = cpu_used_s(group);
}

std::optional<double> quota_v2(const Path& group) {
  const auto line = read_line(group / "cpu.max");
  if (!line) return std::nullopt;
  const auto parts = split(*line, ' ');
  const auto quota = to_int(parts[0]);
  const auto period = parts.size() > 1 ? to_int(parts[1]) : std::optional<std::int64_t>(100'000);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> quota_v1(const Path& group) {
  const auto quota = read_int(group / "cpu.cfs_quota_us");
  const auto period = read_int(group / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Inactive file cache of a group: counted as used, free in effect.
std::uint64_t droppable(const Path& group) {
  const auto stat = read_text(group / "memory.stat").value_or("");
  for (const std::string_view key : {"total_inactive_file ", "inactive_file "})
    for (const auto line : split(stat, '\n'))
      if (line.starts_with(key)) return to_size(line.substr(key.size())).value_or(0);
  return 0;
}

void read_memory(const Chain& chain, const char* limit_file, const char* used_file,
                 CgroupLimits& limits) {
  for (const auto& group : chain) {
    const auto limit = read_size(group / limit_file);
    if (!limit || *limit >= kUnlimited) continue;
    if (limits.memory && *limits.memory <= *limit) continue;
    limits.memory = limit;
    limits.memory_used = read_size(group / used_file);
    if (limits.memory_used) *limits.memory_used -= std::min(*limits.memory_used, droppable(group));
  }
}

std::string first_line(const Chain& chain, std::initializer_list<const char*> files) {
  for (const auto& group : chain)
    for (const auto* file : files)
      if (auto line = read_line(group / file)) return *line;
  return {};
}

}  // namespace

CgroupLimits read_cgroup(const Path& root) {
  CgroupLimits limits;
  const auto groups = read_text(under(root, "/proc/self/cgroup"));
  const auto mounts = read_text(under(root, "/proc/self/mountinfo"));
  if (!groups || !mounts) return limits;

  const auto unified = chain_of(root, *groups, *mounts, "");
  for (const auto& group : unified) tighten(limits, quota_v2(group), group);
  read_memory(unified, "memory.max", "memory.current", limits);
  limits.cpuset = first_line(unified, {"cpuset.cpus.effective"});
  if (!unified.empty()) limits.version = 2;

  const auto cpu = chain_of(root, *groups, *mounts, "cpu");
  const auto memory = chain_of(root, *groups, *mounts, "memory");
  const auto cpuset = chain_of(root, *groups, *mounts, "cpuset");
  for (const auto& group : cpu) tighten(limits, quota_v1(group), group);
  read_memory(memory, "memory.limit_in_bytes", "memory.usage_in_bytes", limits);
  if (limits.cpuset.empty())
    limits.cpuset = first_line(cpuset, {"cpuset.effective_cpus", "cpuset.cpus"});
  if (!cpu.empty() || !memory.empty() || !cpuset.empty()) limits.version = 1;
  return limits;
}

}  // namespace sluice::device
