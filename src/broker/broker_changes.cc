// Acts on the changes of the ledger: stores rows, watches holders, makes control groups and
// delivers events.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/sqlite/sqlite.h"
#include "broker/broker_impl.h"
#include "broker/enforce/holder.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kRecent = 64;
constexpr std::size_t kMaxPendingEvents = 8192;     // events of one peer
constexpr std::size_t kMaxUnsavedEvents = 100'000;  // while nothing can be written
constexpr auto kStoreAgainAfter = std::chrono::milliseconds(250);
using What = Change::What;

// The lease is as all changes of one call left it: one that is granted and asked to yield in
// the same scheduling pass was only held when it was granted.
Lease as_of(const Change& change, Lease lease) {
  const bool is_earlier = change.what == What::granted || change.what == What::yield_withdrawn;
  if (is_earlier && lease.state == State::yielding) lease.state = State::held;
  return lease;
}

// True for the final decision on a request that was not answered at once.
bool is_decision(const Change& change, const Lease& lease) {
  if (change.what == What::granted) return lease.granted_at != lease.requested_at;
  return change.what == What::ended && lease.granted_at == Instant{};
}

bool is_over(const Lease& lease) {
  return lease.state == State::draining || lease.state == State::ended;
}

}  // namespace

void Latencies::add(double s) {
  if (last_.size() < kKept)
    last_.push_back(s);
  else
    last_[next_] = s;
  next_ = (next_ + 1) % kKept;
}

double Latencies::percentile(double p) const {
  if (last_.empty()) return 0;
  auto sorted = last_;
  const auto n = static_cast<std::ptrdiff_t>(static_cast<double>(sorted.size() - 1) * p);
  std::ranges::nth_element(sorted, sorted.begin() + n);
  return sorted[static_cast<std::size_t>(n)];
}

bool Broker::Impl::take(const Changes& changes, const Moment& at) {
  for (const auto& change : changes) note(change, at);
  const bool is_saved = save(at);
  wake_timer();
  return is_saved;
}

// A lease that ended is found only until the ledger's next change, so it is copied here.
void Broker::Impl::note(const Change& change, const Moment& at) {
  if (const auto* found = ledger.find(change.lease)) {
    if (change.what == What::granted) {
      ledger.set_enforcement(change.lease, tier_of(*found, at.now));
      if (config.cgroups) to_limit.insert(change.lease);
    }
    count(change, *found);
    if (is_decision(change, *found)) ++decisions;
    follow_holder(*found);
    if (change.what == What::terminate) to_end.push_back(found->request.holder);
    if (is_over(*found)) leave_group(change.lease);
    if (change.what != What::renewed) unsaved_events.push_back({change, as_of(change, *found), at});
    if (unsaved_events.size() > kMaxUnsavedEvents) unsaved_events.pop_front();
    unsaved.insert_or_assign(change.lease, *found);
  }
}

void Broker::Impl::count(const Change& change, const Lease& lease) {
  switch (change.what) {
    case What::granted: ++stats.granted; return;
    case What::yield_requested: ++stats.yields_requested; return;
    case What::over_use: ++stats.over_uses; return;
    case What::sent_to_cpu: ++stats.sent_to_cpu; return;
    case What::drained: return count_yield(lease);
    case What::ended:
      if (lease.ending == EndReason::expired) ++stats.expired;
      if (lease.ending == EndReason::holder_died) ++stats.holders_died;
      if (lease.yield_requested_at != Instant{}) yielded.insert(lease.id);
      return show_ended(lease);
    default: return;
  }
}

void Broker::Impl::show_ended(const Lease& lease) {
  recent.push_back(lease);
  if (recent.size() > kRecent) recent.pop_front();
}

// Counts the cost of a preemption once it is known of all its cards.
void Broker::Impl::count_yield(const Lease& lease) {
  if (lease.state != State::ended || yielded.erase(lease.id) == 0) return;
  if (lease.yield_freed_at == Instant{}) return;
  const auto shown = std::ranges::find(recent, lease.id, &Lease::id);
  if (shown != recent.end())
    shown->yield_freed_at = lease.yield_freed_at, shown->yield_kept = lease.yield_kept;
  ++stats.yields_done;
  stats.yield_s += seconds_between(lease.yield_requested_at, lease.yield_freed_at);
  stats.yield_bytes += promised(lease) - lease.yield_kept;
}

void Broker::Impl::follow_holder(const Lease& lease) {
  const auto& holder = lease.request.holder;
  if (holder.pid == 0) return;
  const ProcessId id{holder.pid, holder.start_time};
  if (is_over(lease)) {
    if (followed.erase(lease.id) != 0 && watch) watch->forget(id.first, id.second);
  } else if (followed.try_emplace(lease.id, id).second && watch) {
    watch->watch(id.first, id.second);
  }
}

std::set<ProcessId> Broker::Impl::holders() const {
  std::set<ProcessId> all;
  for (const auto& [lease, process] : followed) all.insert(process);
  return all;
}

// Everything that waits goes in one transaction, so what is on disk is always a state
// that the ledger once had.
bool Broker::Impl::save(const Moment& at) {
  if (unsaved.empty() && store_trouble.empty() && is_boot_stored) return true;
  if (!store_trouble.empty() && at.now < store_again_at) return false;
  std::vector<const Lease*> rows;
  rows.reserve(unsaved.size());
  for (const auto& [id, lease] : unsaved) rows.push_back(&lease);
  try {
    if (rows.empty()) store.probe(at);
    store.write(rows, at);
    if (!is_boot_stored) store.remember_boot();  // after what the change of boot ended
    is_boot_stored = true;
  } catch (const Error& e) {
    ++stats.stores_failed;
    if (store_trouble.empty()) log::error("leases: cannot be stored: {}", with_sql(e));
    store_trouble = e.reason();
    ledger.pause();
    store_again_at = at.now + kStoreAgainAfter;
    return false;
  }
  if (!store_trouble.empty()) {
    log::info("leases: stored again");
    ledger.resume(at.now);
  }
  store_trouble.clear();
  unsaved.clear();
  if (listener)
    for (auto& one : unsaved_events) queue_event(std::move(one));
  if (!outbox.empty()) has_events.notify_one();
  unsaved_events.clear();
  return true;
}

// A peer that makes events faster than they can be delivered misses some of its own, not those of
// others. Renewals report the same state.
void Broker::Impl::queue_event(PendingEvent event) {
  auto& waiting = pending_by_peer[event.lease.request.peer];
  if (++waiting == kMaxPendingEvents)
    log::warn("leases: events of {} come faster than they can be delivered; some are dropped",
              event.lease.request.peer);
  if (waiting < kMaxPendingEvents) outbox.push_back(std::move(event));
}

void Broker::Impl::store_failed() const {
  throw StoreUnavailable("leases cannot be stored now: " + store_trouble);
}

void Broker::Impl::require_store() const {
  if (!store_trouble.empty()) store_failed();
}

void Broker::Impl::check_stored(const Lease& lease) const {
  if (!is_over(lease) && unsaved.contains(lease.id)) store_failed();
}

std::optional<Lease> Broker::Impl::find_ended(LeaseId id, const Moment& at) const {
  const auto found = unsaved.find(id);
  return found == unsaved.end() ? store.find(id, at) : found->second;
}

LeaseError Broker::Impl::lease_error(Ledger::Outcome outcome, const Token& token,
                                     const Moment& at) const {
  using Outcome = Ledger::Outcome;
  const auto* lease = ledger.find(token.id);
  switch (outcome) {
    case Outcome::over: {
      const auto ended = find_ended(token.id, at);
      if (!ended)  // so long ago that it is not kept, lost, or never given
        return {Outcome::unknown, fmt::format("there is no lease {}", token.id), std::nullopt};
      return {outcome,
              fmt::format("lease {} is over ({}): {}", token.id, to_string(ended->ending),
                          ended->reason),
              std::nullopt};
    }
    case Outcome::wrong_secret:
      return {outcome, fmt::format("the token is not that of lease {}", token.id), std::nullopt};
    case Outcome::stale:
      return {outcome,
              fmt::format("the token was used before: lease {} has been renewed since, and the "
                          "response to that has the current token",
                          token.id),
              lease == nullptr ? std::nullopt : std::optional(token_of(*lease))};
    default: break;
  }
  return {outcome, fmt::format("there is no lease {}", token.id), std::nullopt};
}

// ---- outside the lock

void Broker::Impl::after() {
  std::vector<Holder> ends;
  bool has_groups = false;
  {
    const Lock lock(mutex);
    ends.swap(to_end);
    has_groups = !to_limit.empty() || !to_lift.empty();
  }
  for (const auto& holder : ends)
    if (terminate(holder, options.proc))
      log::warn("leases: process {} did not yield and was asked to end (SIGTERM)", holder.pid);
  if (has_groups) run_groups();
  if (!options.threads) deliver_events();
}

// Runs in its own thread: a response must not wait for the delivery of other events.
void Broker::Impl::deliver_loop(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      const Lock lock(mutex);
      has_events.wait(mutex, stop, [this]() REQUIRES(mutex) { return !outbox.empty(); });
    }
    deliver_events();
  }
}

// One thread delivers at a time; others leave their events to it.
void Broker::Impl::deliver_events() {
  std::function<void(const BrokerEvent&)> to;
  std::deque<PendingEvent> now;
  {
    const Lock lock(mutex);
    if (delivering || outbox.empty()) return;
    delivering = true;
  }
  while (true) {
    {
      const Lock lock(mutex);
      now.clear();
      now.swap(outbox);
      pending_by_peer.clear();
      to = listener;
      if (!to || now.empty()) {
        delivering = false;
        delivered.notify_all();
        return;
      }
    }
    for (const auto& one : now) {
      try {
        to(event_of(one));
      } catch (const std::exception& e) {
        log::error("leases: an event could not be delivered: {}", e.what());
      }
    }
  }
}

void Broker::on_event(std::function<void(const BrokerEvent&)> listener) {
  const Lock lock(impl_->mutex);
  impl_->listener = std::move(listener);
  if (!impl_->listener) impl_->outbox.clear(), impl_->pending_by_peer.clear();
  auto& impl = *impl_;
  impl.delivered.wait(impl.mutex, [&impl]() REQUIRES(impl.mutex) { return !impl.delivering; });
}

}  // namespace sluice::broker
