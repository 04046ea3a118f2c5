// Identifies the process that holds a lease and checks whether it is alive. A pid alone does not
// identify a process: pids are reused, so the start time goes with it.
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

// Identifies process `named` as the holder of a request of `requester`, a process and its user: it
// must be the same process, or an ancestor of the same user. A holder may be terminated, so no user
// may name the process of another; root may. Nothing where it may not, and where `requester` has
// ended or its pid belongs to a later process.
std::optional<Holder> named_holder(std::int64_t named, const Holder& requester,
                                   const std::string& proc);

// False for a later process with the same pid and for a zombie. A process whose first thread
// ended while others run is alive.
bool is_alive(std::int64_t pid, std::uint64_t start_time, const std::string& proc);

// Sends SIGTERM to the process if it is the one that holds the lease and not this program
// itself; false when no signal was sent.
bool terminate(const Holder& holder, const std::string& proc);

// The id of this boot: records of processes from an earlier boot are void. Empty when the
// kernel does not give it.
std::string boot_id(const std::string& proc);

// Whether our process numbers are those of the machine, which are what drivers report;
// false in a container with a PID namespace of its own.
bool has_host_pids(const std::string& proc);

}  // namespace sluice::broker
