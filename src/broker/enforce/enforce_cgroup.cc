#include "broker/enforce/enforce_cgroup.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/state_file.h"
#include "device/sysfs.h"

namespace sluice::broker {

namespace fs = std::filesystem;
using device::read_text;
using device::split;

namespace {

constexpr const char* kOurs = "/sluice";
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kSpareLines = 1024;
constexpr int kMoves = 3;  // a process may fork while it is moved
constexpr off_t kMaxRecordBytes = 64 << 20;
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

bool has_word(const std::optional<std::string>& text, std::string_view expected) {
  if (!text) return false;
  for (const auto line : split(*text, '\n'))
    for (const auto word : split(line, ' '))
      if (word == expected) return true;
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

// Where that group is gone, or takes no processes since it has others below it, into the next
// one above.
void move_back(const std::string& root, std::string origin, const std::string& pid) {
  while (!put(root + origin + "/cgroup.procs", pid).empty() && !origin.empty())
    origin.resize(origin.rfind('/'));
}

// A path below the root as the kernel writes it: no step up, no deleted group, one line.
bool is_plain_path(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kMaxPathBytes || path.ends_with(" (deleted)"))
    return false;
  for (const auto step : split(path.substr(1), '/'))
    if (step == ".." || step == ".") return false;
  return path.find('\n') == path.npos;
}

// The lease of one of our groups, or of a group below it.
std::optional<LeaseId> lease_of_group(std::string_view group) {
  const auto prefix = std::string(kOurs) + "/lease-";
  if (!group.starts_with(prefix)) return std::nullopt;
  group.remove_prefix(prefix.size());
  return device::to_size(group.substr(0, group.find('/')));
}

std::string line_of(LeaseId lease, const std::string& origin) {
  return fmt::format("{} {}\n", lease, origin);
}

// Nothing where the file is not trusted.
std::optional<std::string> read_own_file(const std::string& path) {
  try {
    return read_state_file(path, kMaxRecordBytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

LeaseGroups::LeaseGroups(std::string cgroup_root, std::string proc, std::string record)
    : root_(std::move(cgroup_root)), proc_(std::move(proc)), record_(std::move(record)) {
  load();
}

// ---- where processes came from

// The group that the kernel names, if it is one that a process can go back to: of a process in
// another lease's group, where that one came from.
std::string LeaseGroups::origin_of(std::int64_t pid) const {
  const auto group = group_of(pid, proc_);
  if (const auto lease = lease_of_group(group)) {
    const auto known = origins_.find(*lease);
    return known == origins_.end() ? "" : known->second;
  }
  return is_plain_path(group) ? group : "";
}

// "" or what went wrong. It is for the end of this process, not of the machine, with which
// the groups end, too: nothing waits for the disk.
std::string LeaseGroups::remember(LeaseId lease, const std::string& origin) {
  origins_[lease] = origin;
  if (record_.empty()) return "";
  if (++lines_ > kSpareLines + 2 * origins_.size()) return save();
  try {
    const StateFile file(record_, O_WRONLY | O_APPEND | O_CREAT);
    const auto line = line_of(lease, origin);
    if (::write(file.fd(), line.data(), line.size()) == static_cast<ssize_t>(line.size()))
      return "";
    return fmt::format("{}: {}", record_, std::strerror(errno));
  } catch (const Error& e) {
    return std::string(e.reason());
  }
}

// Only a file of our own is trusted, and only plain paths in it.
void LeaseGroups::load() {
  const auto text = record_.empty() ? std::nullopt : read_own_file(record_);
  if (!text) return;
  for (const auto line : split(*text, '\n')) {
    const auto space = std::min(line.find(' '), line.size());
    const auto id = device::to_size(line.substr(0, space));
    const auto origin = line.substr(std::min(space + 1, line.size()));
    if (id && is_plain_path(origin) && !lease_of_group(origin)) origins_[*id] = origin;
  }
}

std::string LeaseGroups::save() {
  try {
    NewFile file(record_, 0600);
    for (const auto& [lease, origin] : origins_) file.write(line_of(lease, origin));
    file.keep();
    lines_ = origins_.size();
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "";
}

std::string LeaseGroups::folder(LeaseId lease) const {
  return fmt::format("{}{}/lease-{}", root_, kOurs, lease);
}

bool LeaseGroups::exists(LeaseId lease) const {
  std::error_code ignored;
  return fs::exists(folder(lease), ignored);
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
  const bool is_inside = root_ + group_of(pid, proc_) == group;  // since before a restart
  if (has_memory && !is_inside)
    return fmt::format("what process {} took before would not be counted in a new group", pid);
  if (!is_inside) {
    const auto origin = origin_of(pid);
    if (origin.empty())
      return fmt::format("process {} is in no group that it could go back to", pid);
    if (auto wrong = remember(lease, origin); !wrong.empty()) return wrong;
  }
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
  bool is_gone = ::rmdir(group.c_str()) == 0 || errno == ENOENT;
  for (int round = 0; round < kMoves && !is_gone && origin != origins_.end(); ++round) {
    const auto members = read_text(group + "/cgroup.procs").value_or("");
    for (const auto pid : split(members, '\n'))
      if (!pid.empty()) move_back(root_, origin->second, std::string(pid));
    is_gone = ::rmdir(group.c_str()) == 0;
  }
  if (is_gone && origin != origins_.end())
    origins_.erase(origin);  // else the next sweep tries again
}

void LeaseGroups::sweep(std::span<const LeaseId> live) {
  std::erase_if(origins_, [this](const auto& known) { return !exists(known.first); });
  for (const auto& name : device::numbered(root_ + kOurs, "lease-"))
    if (const auto id = device::to_int(std::string_view(name).substr(6));
        id && std::ranges::find(live, static_cast<LeaseId>(*id)) == live.end())
      lift(static_cast<LeaseId>(*id));
  if (record_.empty()) return;
  if (const auto wrong = save(); !wrong.empty())
    log::warn("leases: where processes came from cannot be stored: {}", wrong);
}

}  // namespace sluice::broker
