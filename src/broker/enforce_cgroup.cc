#include "broker/enforce_cgroup.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "device/sysfs.h"

namespace sluice::broker {

namespace fs = std::filesystem;
using device::read_text;
using device::split;

namespace {

constexpr const char* kOurs = "/sluice";
constexpr std::uint64_t kSlack = 64 << 20;  // what drivers list and the kernel counts differ by

// "" or what went wrong. Kernel files take one write.
std::string put(const std::string& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return fmt::format("{}: {}", file, std::strerror(errno));
  const auto n = ::write(fd, text.data(), text.size());
  const int error = errno;
  ::close(fd);
  return n == static_cast<ssize_t>(text.size())
             ? ""
             : fmt::format("{} does not take '{}': {}", file, text, std::strerror(error));
}

bool has_word(const std::optional<std::string>& text, std::string_view wanted) {
  if (!text) return false;
  for (const auto line : split(*text, '\n'))
    for (const auto word : split(line, ' '))
      if (word == wanted) return true;
  return false;
}

// The number after `region` in a file of "region number" lines.
std::optional<std::uint64_t> value_of(const std::string& file, std::string_view region) {
  const auto text = read_text(file);
  if (!text) return std::nullopt;
  for (const auto line : split(*text, '\n'))
    if (const auto words = split(line, ' '); words.size() == 2 && words[0] == region)
      return device::to_size(words[1]);
  return std::nullopt;
}

// Where a process is now, below the root: "/user.slice/…"
std::string group_of(std::int64_t pid, const std::string& proc) {
  const auto text = read_text(fmt::format("{}/{}/cgroup", proc, pid));
  if (text)
    for (const auto line : split(*text, '\n'))
      if (line.starts_with("0::")) return std::string(line.substr(3));
  return "";
}

}  // namespace

LeaseGroups::LeaseGroups(std::string cgroup_root, std::string proc)
    : root_(std::move(cgroup_root)), proc_(std::move(proc)) {}

std::string LeaseGroups::folder(LeaseId lease) const {
  return fmt::format("{}{}/lease-{}", root_, kOurs, lease);
}

std::string LeaseGroups::why_no_groups() const {
  if (!read_text(root_ + "/cgroup.controllers")) return root_ + " is no version 2 control group";
  if (::access((root_ + "/cgroup.subtree_control").c_str(), W_OK) != 0)
    return root_ + " cannot be written: it takes root";
  return "";
}

std::string LeaseGroups::why_not() const {
  if (auto why = why_no_groups(); !why.empty()) return why;
  return has_word(read_text(root_ + "/cgroup.controllers"), "dmem")
             ? ""
             : "this kernel has no dmem controller (Linux 6.14 and later)";
}

// The kernel names a card's memory "drm/<bus>/vram" or with a number behind; which, its
// list of capacities says.
std::string LeaseGroups::regions_of(std::span<const DmemLimit> limits,
                                    std::vector<std::string>& names) const {
  const auto capacities = read_text(root_ + "/dmem.capacity").value_or("");
  for (const auto& limit : limits) {
    const auto prefix = fmt::format("drm/{}/vram", limit.bus);
    std::string found;
    for (const auto line : split(capacities, '\n'))
      if (const auto name = split(line, ' ')[0]; found.empty() && name.starts_with(prefix))
        found = std::string(name);
    if (found.empty()) return fmt::format("the kernel does not count the memory of {}", limit.bus);
    names.push_back(std::move(found));
  }
  return "";
}

std::string LeaseGroups::set_up(const std::string& group, std::int64_t pid,
                                std::span<const DmemLimit> limits,
                                std::span<const std::string> regions) const {
  const auto ours = root_ + kOurs;
  const bool has_dmem = why_not().empty();
  std::error_code failed;
  fs::create_directory(ours, failed);
  for (const auto& parent : {root_, ours})
    if (has_dmem && !has_word(read_text(parent + "/cgroup.subtree_control"), "dmem"))
      if (auto wrong = put(parent + "/cgroup.subtree_control", "+dmem"); !wrong.empty())
        return wrong;
  fs::create_directory(group, failed);
  if (failed) return fmt::format("{}: {}", group, failed.message());
  for (std::size_t i = 0; i < limits.size(); ++i)
    if (auto wrong = put(group + "/dmem.max", fmt::format("{} {}", regions[i], limits[i].bytes));
        !wrong.empty())
      return wrong;
  return put(group + "/cgroup.procs", std::to_string(pid));
}

std::string LeaseGroups::read_back(const std::string& group, std::int64_t pid,
                                   std::span<const DmemLimit> limits,
                                   std::span<const std::string> regions) const {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto stands = value_of(group + "/dmem.max", regions[i]);
    if (!stands || *stands > limits[i].bytes)
      return fmt::format("{}/dmem.max does not show the limit of {} for {}", group, limits[i].bytes,
                         regions[i]);
  }
  if (!has_word(read_text(group + "/cgroup.procs"), std::to_string(pid)))
    return fmt::format("process {} is not in {}", pid, group);
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto counted = value_of(group + "/dmem.current", regions[i]).value_or(0);
    if (limits[i].used > counted + kSlack)
      return fmt::format("{} bytes are used of {}, and only {} counted in {}", limits[i].used,
                         regions[i], counted, group);
  }
  return "";
}

std::string LeaseGroups::stands(LeaseId lease, std::int64_t pid,
                                std::span<const DmemLimit> limits) const {
  std::vector<std::string> regions;
  if (auto wrong = regions_of(limits, regions); !wrong.empty()) return wrong;
  return read_back(folder(lease), pid, limits, regions);
}

std::string LeaseGroups::limit(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits) {
  if (auto why = why_not(); !why.empty()) return why;
  std::vector<std::string> regions;
  if (auto wrong = regions_of(limits, regions); !wrong.empty()) return wrong;
  const bool has_memory = std::ranges::any_of(limits, [](const auto& l) { return l.used > 0; });
  return admit(lease, pid, limits, regions, has_memory);
}

std::string LeaseGroups::enter(LeaseId lease, std::int64_t pid, bool has_memory) {
  if (auto why = why_no_groups(); !why.empty()) return why;
  return admit(lease, pid, {}, {}, has_memory);
}

std::string LeaseGroups::admit(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits,
                               std::span<const std::string> regions, bool has_memory) {
  const auto group = folder(lease);
  const auto origin = group_of(pid, proc_);
  const bool is_inside = root_ + origin == group;  // since before a restart
  if (has_memory && !is_inside)
    return fmt::format("what process {} took before would not be counted in a new group", pid);
  if (!is_inside) origins_[lease] = origin;
  auto wrong = set_up(group, pid, limits, regions);
  if (wrong.empty()) wrong = read_back(group, pid, limits, regions);
  if (!wrong.empty()) lift(lease);
  return wrong;
}

// The limit first: a process that cannot be moved is free of it all the same.
void LeaseGroups::lift(LeaseId lease) {
  const auto group = folder(lease);
  const auto limits = read_text(group + "/dmem.max").value_or("");
  for (const auto line : split(limits, '\n'))
    if (const auto words = split(line, ' '); words.size() == 2 && words[1] != "max")
      put(group + "/dmem.max", fmt::format("{} max", words[0]));
  const auto origin = origins_.find(lease);
  const auto back = root_ + (origin == origins_.end() ? "" : origin->second) + "/cgroup.procs";
  const auto members = read_text(group + "/cgroup.procs").value_or("");
  for (const auto pid : split(members, '\n'))
    if (!pid.empty()) put(back, std::string(pid));
  if (origin != origins_.end()) origins_.erase(origin);
  ::rmdir(group.c_str());
}

void LeaseGroups::sweep(std::span<const LeaseId> live) {
  for (const auto& name : device::numbered(root_ + kOurs, "lease-"))
    if (const auto id = device::to_int(std::string_view(name).substr(6));
        id && std::ranges::find(live, static_cast<LeaseId>(*id)) == live.end())
      lift(static_cast<LeaseId>(*id));
}

}  // namespace sluice::broker
