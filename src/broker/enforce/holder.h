// Which process holds a lease, and whether it still lives. A number alone is not a
// process: numbers are used again, so the time it started goes with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "broker/lease/lease.h"

namespace sluice::broker {

struct ProcessStat {
  char state = '?';  // 'R', 'S', … 'Z' for one that has ended and was not yet waited for
  std::int64_t parent = 0;
  std::int64_t threads = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot
};

// One line of /proc/<pid>/stat. The name in it may hold spaces and parentheses.
std::optional<ProcessStat> parse_stat(std::string_view line) noexcept;
std::optional<ProcessStat> process_stat(std::int64_t pid, const std::string& proc);

// The holder with the time its process started; without a pid where that cannot be
// read (another PID namespace, a hidden process, one that is gone): such a holder
// proves its life by renewing only.
Holder identified(Holder holder, const std::string& proc);

// Process `named`, identified, as the holder of what `asking`, a process and its user, asks for:
// itself, or one of its ancestors that is the same user's. A holder may be asked to end, so
// nobody names the process of another; root may. Nothing where it may not, and where `asking`
// is over or its number belongs to a later process.
std::optional<Holder> named_holder(std::int64_t named, const Holder& asking,
                                   const std::string& proc);

// Not fooled by a later process of the same number, nor by one that has ended and
// waits for its parent. A process whose first thread ended while others run lives.
bool is_alive(std::int64_t pid, std::uint64_t start_time, const std::string& proc);

// Asks the process to end (SIGTERM), if it is the one that holds the lease and not this
// program itself; false when it was not asked.
bool terminate(const Holder& holder, const std::string& proc);

// Of this boot: what is known of processes from before another one is void. Empty
// when the kernel does not tell.
std::string boot_id(const std::string& proc);

// Whether our process numbers are those of the machine, which are what drivers report;
// false in a container with a PID namespace of its own.
bool has_host_pids(const std::string& proc);

}  // namespace sluice::broker
