#include "broker/enforce/holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "device/sysfs.h"

namespace sluice::broker {

namespace {

// The n-th word, from 0; empty when there are fewer.
std::string_view word(std::string_view text, int n) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    if (end > at && n-- == 0) return text.substr(at, end - at);
    at = end + 1;
  }
  return {};
}

template <class T>
bool read(std::string_view text, T& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} && end == text.data() + text.size();
}

// Without a stream's cost: this stands in the way of a grant. Empty when unreadable.
std::string_view read_small(const std::string& path, std::array<char, 1024>& buffer) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const auto n = ::read(fd, buffer.data(), buffer.size());
  ::close(fd);
  return n > 0 ? std::string_view(buffer.data(), static_cast<std::size_t>(n)) : std::string_view();
}

// Whether a process runs as this user and nobody else: a program that changed its user on the
// way has several.
bool belongs_to(std::int64_t pid, std::int64_t uid, const std::string& proc) {
  constexpr std::string_view kField = "\nUid:\t";
  std::array<char, 1024> buffer;
  auto text = read_small(proc + "/" + std::to_string(pid) + "/status", buffer);
  const auto begin = text.find(kField);
  if (begin == text.npos) return false;
  text.remove_prefix(begin + kField.size());
  for (const char end : {'\t', '\t', '\t', '\n'}) {  // real, effective, saved, of the file system
    const auto length = text.find(end);
    std::int64_t number = -1;
    if (length == text.npos || !read(text.substr(0, length), number) || number != uid) return false;
    text.remove_prefix(length + 1);
  }
  return true;
}

}  // namespace

std::optional<ProcessStat> parse_stat(std::string_view line) noexcept {
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const auto name_end = line.rfind(')');
  if (name_end == line.npos) return std::nullopt;
  const auto rest = line.substr(name_end + 1);  // from field 3 on
  ProcessStat stat;
  if (word(rest, 0).size() != 1) return std::nullopt;
  stat.state = word(rest, 0)[0];
  if (!read(word(rest, 1), stat.parent) || !read(word(rest, 17), stat.threads) ||
      !read(word(rest, 19), stat.start_time))
    return std::nullopt;
  return stat;
}

std::optional<ProcessStat> process_stat(std::int64_t pid, const std::string& proc) {
  if (pid <= 0) return std::nullopt;
  std::array<char, 1024> buffer;
  return parse_stat(read_small(proc + "/" + std::to_string(pid) + "/stat", buffer));
}

Holder identified(Holder holder, const std::string& proc) {
  if (holder.pid == 0 || holder.start_time != 0) return holder;
  const auto stat = process_stat(holder.pid, proc);
  if (stat)
    holder.start_time = stat->start_time;
  else
    holder.pid = 0;
  return holder;
}

// Its start time is read before its user and is the same after it: a number that is used
// again meanwhile names nobody.
std::optional<Holder> named_holder(std::int64_t named, const Holder& requester,
                                   const std::string& proc) {
  constexpr int kGenerations = 16;
  if (named <= 0 || requester.pid <= 0 || !is_alive(requester.pid, requester.start_time, proc))
    return std::nullopt;
  if (named == requester.pid) return requester;
  auto pid = requester.pid;
  for (int i = 0; i < kGenerations && pid > 0 && pid != named; ++i) {
    const auto stat = process_stat(pid, proc);
    pid = stat ? stat->parent : 0;
  }
  if (pid != named) return std::nullopt;
  const auto holder = identified({named, 0, requester.uid, 0}, proc);
  const bool may = requester.uid == 0 || belongs_to(named, requester.uid, proc);
  if (!may || !is_alive(holder.pid, holder.start_time, proc)) return std::nullopt;
  return holder;
}

bool is_alive(std::int64_t pid, std::uint64_t start_time, const std::string& proc) {
  const auto stat = process_stat(pid, proc);
  if (!stat || stat->start_time != start_time) return false;
  const bool ended = stat->state == 'Z' || stat->state == 'X' || stat->state == 'x';
  return !ended || stat->threads > 1;
}

// The descriptor stands for the process from when it is opened, so that the signal cannot
// reach another one that took its number after the look at its start time.
bool terminate(const Holder& holder, const std::string& proc) {
  if (holder.pid <= 1 || holder.pid == ::getpid()) return false;
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(holder.pid), 0));
  const bool is_holder = is_alive(holder.pid, holder.start_time, proc);
  bool signaled = false;
  if (fd >= 0 && is_holder)
    signaled = ::syscall(SYS_pidfd_send_signal, fd, SIGTERM, nullptr, 0) == 0;
  else if (is_holder)  // a kernel without such descriptors
    signaled = ::kill(static_cast<pid_t>(holder.pid), SIGTERM) == 0;
  if (fd >= 0) ::close(fd);
  return signaled;
}

std::string boot_id(const std::string& proc) {
  return device::read_line(proc + "/sys/kernel/random/boot_id").value_or("");
}

bool has_host_pids(const std::string& proc) {
  std::error_code failed;
  const auto target = std::filesystem::read_symlink(proc + "/self/ns/pid", failed);
  return !failed && target == "pid:[4026531836]";  // the kernel's number of the first one
}

}  // namespace sluice::broker
