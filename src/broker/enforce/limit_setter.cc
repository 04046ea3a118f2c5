#include "broker/enforce/limit_setter.h"

#include "base/log.h"
#include "broker/enforce/holder.h"

namespace sluice::broker {

std::vector<LeaseId> LimitSetter::sweep(const std::vector<LeaseId>& live) {
  groups_.sweep(live);
  std::vector<LeaseId> found;
  for (const auto id : live)
    if (groups_.exists(id)) found.push_back(id);
  return found;
}

// Groups are entered by number. A process that took the number of one that ended is let go again
// before anything limits it: `enter` is undone unless the holder still runs after it.
template <class Enter>
std::string LimitSetter::in_time(LeaseId id, const Holder& holder, Enter enter) {
  const auto ended = [&] { return !is_alive(holder.pid, holder.start_time, proc_); };
  constexpr const char* kEnded = "its process has ended";
  if (ended()) return kEnded;
  auto wrong = enter();
  if (wrong.empty() && ended()) {
    groups_.lift(id);
    wrong = kEnded;
  }
  return wrong;
}

// Moves the process into its group at once; the limit follows when the driver has answered.
void LimitSetter::ask_driver(const Lease& lease, bool has_memory, Instant now) {
  const auto& holder = lease.request.holder;
  const auto wrong =
      in_time(lease.id, holder, [&] { return groups_.enter(lease.id, holder.pid, has_memory); });
  if (wrong.empty())
    driver_.start(lease, groups_.folder(lease.id), now);
  else
    log::debug("leases: no group for lease {}: {}", lease.id, wrong);
}

std::vector<LeaseId> LimitSetter::carry_out(const LimitWork& work, Instant now) {
  std::vector<LeaseId> limited;
  for (const auto id : work.lift) groups_.lift(id);
  for (const auto& [lease, has_memory] : work.for_driver) ask_driver(lease, has_memory, now);
  for (const auto& job : work.jobs) {
    const auto wrong = in_time(job.id, job.holder,
                               [&] { return groups_.limit(job.id, job.holder.pid, job.limits); });
    if (wrong.empty())
      limited.push_back(job.id);
    else
      log::debug("leases: no group for lease {}: {}", job.id, wrong);
  }
  return limited;
}

std::vector<LeaseId> LimitSetter::collect(Instant now) {
  std::vector<LeaseId> limited;
  for (const auto& [id, wrong] : driver_.advance(now)) {
    if (wrong.empty()) {
      limited.push_back(id);
      continue;
    }
    log::debug("leases: no limit for lease {}: {}", id, wrong);
    groups_.lift(id);
  }
  return limited;
}

std::vector<std::pair<LeaseId, bool>> LimitSetter::check(const std::vector<LimitJob>& jobs) const {
  std::vector<std::pair<LeaseId, bool>> stands;
  for (const auto& job : jobs) {
    const auto wrong = groups_.stands(job.id, job.holder.pid, job.limits);
    if (!wrong.empty()) log::debug("leases: lease {} is not held to its limit: {}", job.id, wrong);
    stands.emplace_back(job.id, wrong.empty());
  }
  return stands;
}

}  // namespace sluice::broker
