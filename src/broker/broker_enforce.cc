// Which tier a lease may claim, from what the broker has seen, and the groups that the
// kernel's tier needs.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "broker/broker_impl.h"
#include "broker/enforce/holder.h"
#include "broker/ledger/place.h"

namespace sluice::broker {

namespace {

const CardSnapshot* card_snapshot_of(const std::vector<CardSnapshot>& card_snapshots,
                                     const std::string& uuid) {
  for (const auto& s : card_snapshots)
    if (s.card.uuid == uuid) return &s;
  return nullptr;
}

std::uint64_t used_on(const CardSnapshot& card_snapshot, const Holder& holder) {
  std::uint64_t bytes = 0;
  for (const auto& p : card_snapshot.card.processes)
    if (is_holder(holder, p)) bytes += p.bytes.value_or(0);
  return bytes;
}

struct GroupJob {
  LeaseId id;
  Holder holder;
  std::vector<DmemLimit> limits;
};

CardEvidence evidence_on(const CardSnapshot& card_snapshot, const Holder& holder, Instant now,
                         Seconds stale) {
  const auto& card = card_snapshot.card;
  CardEvidence out;
  out.lists_memory = card.processes_at &&
                     seconds_between(*card.processes_at, now) <= 3 * stale.count() * card.slowness;
  for (const auto& p : card.processes) {
    if (!p.bytes) out.lists_memory = false;
    if (is_holder(holder, p)) out.holder_seen = true;
  }
  out.holder_uses_mps = card_snapshot.mps_limits.contains({holder.pid, holder.start_time});
  return out;
}

}  // namespace

Enforcement Broker::Impl::tier_of(const Lease& lease, Instant now) const {
  const auto& holder = lease.request.holder;
  const ProcessId id{holder.pid, holder.start_time};
  Evidence seen;
  seen.host_pids = host_pids;
  seen.cgroup_verified = limited.contains(lease.id);
  seen.mps_limit_seen = mps_daemon && holder.pid != 0 && !lease.parts.empty();
  for (const auto& part : lease.parts) {
    const auto* card_snapshot = card_snapshot_of(card_snapshots, part.uuid);
    if (card_snapshot == nullptr) return Enforcement::none;
    seen.cards.push_back(evidence_on(*card_snapshot, holder, now, Seconds(config.stale_s)));
    const auto limit = card_snapshot->mps_limits.find(id);
    if (limit == card_snapshot->mps_limits.end() || limit->second != mps_limit(lease))
      seen.mps_limit_seen = false;
  }
  return enforcement_of(lease, seen);
}

void Broker::Impl::judge_enforcement(LeaseId id, Instant now) {
  const auto* lease = ledger.find(id);
  if (lease == nullptr || (lease->state != State::held && lease->state != State::yielding)) return;
  const auto tier = tier_of(*lease, now);
  if (tier == lease->enforcement) return;
  ledger.set_enforcement(id, tier);
  unsaved.insert_or_assign(id, *ledger.find(id));
}

// With each sample, as evidence comes and goes.
void Broker::Impl::judge_enforcement(const Moment& at) {
  for (const auto* lease : ledger.live()) {
    if (lease->state != State::held && lease->state != State::yielding) continue;
    if (config.cgroups && !grouped.contains(lease->id)) to_limit.insert(lease->id);
    judge_enforcement(lease->id, at.now);
  }
}

// A process can be in one group only: one with several leases is in none.
bool Broker::Impl::shares_process(LeaseId id) {
  const auto own = followed.find(id);
  if (own == followed.end()) return true;
  bool shares = false;
  for (const auto& [other, process] : followed) {
    if (other == id || process != own->second) continue;
    shares = true;
    leave_group(other);
  }
  return shares;
}

// The limits for the holder of a lease; empty where the kernel can set none.
std::vector<DmemLimit> Broker::Impl::limits_for(const Lease& lease) const {
  std::vector<DmemLimit> limits;
  for (const auto& part : lease.parts) {
    const auto* card_snapshot = card_snapshot_of(card_snapshots, part.uuid);
    if (card_snapshot == nullptr || card_snapshot->vendor == device::Vendor::nvidia) return {};
    limits.push_back(
        {card_snapshot->card.bus, part.bytes, used_on(*card_snapshot, lease.request.holder)});
  }
  return limits;
}

bool Broker::Impl::is_for_driver(const Lease& lease) const {
  return std::ranges::all_of(lease.parts, [this](const Part& part) REQUIRES(mutex) {
    const auto* card_snapshot = card_snapshot_of(card_snapshots, part.uuid);
    return card_snapshot != nullptr && card_snapshot->vendor == device::Vendor::nvidia;
  });
}

// Groups are entered by number. A process that took the number of one that ended is let go again
// before anything limits it: `enter` is undone unless the holder still runs after it.
template <class Enter>
std::string Broker::Impl::in_time(LeaseId id, const Holder& holder, Enter enter) {
  const auto ended = [&] { return !is_alive(holder.pid, holder.start_time, options.proc); };
  constexpr const char* kEnded = "its process has ended";
  if (ended()) return kEnded;
  auto wrong = enter();
  if (wrong.empty() && ended()) {
    groups.lift(id);
    wrong = kEnded;
  }
  return wrong;
}

// Moves the process into its group at once; the limit follows when the driver has answered.
void Broker::Impl::ask_driver(const Lease& lease, bool has_memory) {
  const auto& holder = lease.request.holder;
  const auto wrong = in_time(lease.id, holder, [&]() REQUIRES(groups_mutex) {
    return groups.enter(lease.id, holder.pid, has_memory);
  });
  if (wrong.empty())
    driver_limits.start(lease, groups.folder(lease.id), options.now());
  else
    log::debug("leases: no group for lease {}: {}", lease.id, wrong);
}

void Broker::Impl::collect_limits() {
  const Lock one_at_a_time(groups_mutex);
  for (const auto& [id, wrong] : driver_limits.advance(options.now())) {
    if (!wrong.empty()) {
      log::debug("leases: no limit for lease {}: {}", id, wrong);
      groups.lift(id);
      continue;
    }
    const Lock lock(mutex);
    group_made(id);
  }
}

std::vector<LeaseId> Broker::Impl::live_ids() const {
  std::vector<LeaseId> live;
  for (const auto* lease : ledger.live()) live.push_back(lease->id);
  return live;
}

void Broker::Impl::leave_group(LeaseId id) {
  limited.erase(id), tried.erase(id);
  if (grouped.erase(id) + groups_before.erase(id) != 0) to_lift.insert(id);
}

void Broker::Impl::group_made(LeaseId id) {
  const auto* lease = ledger.find(id);
  const bool holds =
      lease != nullptr && (lease->state == State::held || lease->state == State::yielding);
  if (!holds || shares_process(id)) {  // it ended meanwhile, or its process took another
    to_lift.insert(id);
    return;
  }
  grouped.insert(id), limited.insert(id);
  judge_enforcement(id, options.now());
  save(moment());
}

// With each sample: a process may have been moved away, and a limit lifted.
void Broker::Impl::check_groups() {
  const Lock one_at_a_time(groups_mutex);
  std::vector<GroupJob> jobs;
  {
    const Lock lock(mutex);
    for (const auto id : grouped)
      if (const auto* lease = ledger.find(id))
        jobs.push_back({id, lease->request.holder, limits_for(*lease)});
  }
  for (const auto& job : jobs) {
    const auto wrong = groups.stands(job.id, job.holder.pid, job.limits);
    if (!wrong.empty()) log::debug("leases: lease {} is not held to its limit: {}", job.id, wrong);
    const Lock lock(mutex);
    if (!grouped.contains(job.id)) continue;  // it ended meanwhile
    if (wrong.empty())
      limited.insert(job.id);
    else
      limited.erase(job.id);
    judge_enforcement(job.id, options.now());
    save(moment());
  }
}

void Broker::Impl::run_groups() {
  const Lock one_at_a_time(groups_mutex);
  std::vector<GroupJob> jobs;
  std::vector<std::pair<Lease, bool>> for_driver;  // with whether it has memory there
  std::set<LeaseId> lift;
  {
    const Lock lock(mutex);
    for (const auto id : std::exchange(to_limit, {})) {
      const auto* lease = ledger.find(id);
      if (lease == nullptr || lease->request.holder.pid == 0 || tried.contains(id)) continue;
      if (shares_process(id)) continue;
      const auto used = used_by(*lease, card_snapshots);
      if (auto limits = limits_for(*lease); !limits.empty()) {
        jobs.push_back({id, lease->request.holder, std::move(limits)});
      } else if (used && driver_limits.is_possible() && is_for_driver(*lease)) {
        tried.insert(id);
        for_driver.emplace_back(*lease, used->value > 0);
      }
    }
    lift.swap(to_lift);
  }
  for (const auto id : lift) groups.lift(id);
  for (const auto& [lease, has_memory] : for_driver) ask_driver(lease, has_memory);
  for (const auto& job : jobs) {
    const auto wrong = in_time(job.id, job.holder, [&]() REQUIRES(groups_mutex) {
      return groups.limit(job.id, job.holder.pid, job.limits);
    });
    if (!wrong.empty()) {
      log::debug("leases: no group for lease {}: {}", job.id, wrong);
      continue;
    }
    const Lock lock(mutex);
    group_made(job.id);
  }
}

}  // namespace sluice::broker
