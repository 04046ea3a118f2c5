#include "broker/ledger/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

constexpr double kForgets = 0.6931471805599453 / 600;  // of a share per second: half in ten minutes
constexpr std::size_t kAgentsToSweep = 4096, kDeadlinesToSweep = 1024;
constexpr Seconds kReturnsPause{0.002};  // between slices of returns: requests come first

}  // namespace

std::string_view to_string(Change::What what) noexcept {
  static constexpr std::array<std::string_view, kChanges> kNames{
      "queued",          "granted",       "renewed",     "yield_requested",
      "yield_withdrawn", "yield_overdue", "ended",       "drained",
      "over_use",        "within_again",  "preempted",   "terminate",
      "card_lost",       "card_back",     "sent_to_cpu", "capacity"};
  const auto index = static_cast<std::size_t>(what);
  return index < kNames.size() ? kNames[index] : "unknown";
}

// ---- The inside ----

void Ledger::Impl::begin(Instant t) {
  just_ended.clear();
  returns_reported = 0;
  now = std::max(now, t);
  if (agents.size() > std::max(kAgentsToSweep, 2 * agents_at_sweep)) forget_agents();
}

Agent& Ledger::Impl::agent_named(const std::string& name) {
  auto [at, is_new] = agents.try_emplace(name);
  if (is_new) {
    at->second.name = name, at->second.share_at = now;
    set_limits(at->second);
  }
  return at->second;
}

// Names come from outside: those who hold nothing and have not for a while are dropped.
void Ledger::Impl::forget_agents() {
  std::erase_if(agents, [&](const auto& named) {
    return named.second.leases == 0 && !named.second.is_reserved_for &&
           share_of(named.second, now) < 1 << 30;
  });
  agents_at_sweep = agents.size();
}

// Solves share' = held - kForgets * share.
double Ledger::Impl::share_of(const Agent& agent, Instant t) const {
  const double level = static_cast<double>(agent.held) / kForgets;
  const double passed = std::max(0.0, seconds_between(agent.share_at, t));
  return level + (agent.share - level) * std::exp(-kForgets * passed);
}

void Ledger::Impl::accrue(Agent& agent, Instant t) {
  agent.share = share_of(agent, t);
  agent.share_at = std::max(agent.share_at, t);
}

Entry& Ledger::Impl::enter(Lease lease) {
  const auto id = lease.id;
  auto& entry = entries[id];
  entry.lease = std::move(lease);
  entry.agent = &agent_named(entry.lease.request.agent);
  ++entry.agent->leases;
  join_peer(entry);
  const auto& holder = entry.lease.request.holder;
  if (holder.connection != 0) by_connection[holder.connection].push_back(id);
  if (holder.pid != 0) by_holder[{holder.pid, holder.start_time}].push_back(id);
  return entry;
}

void Ledger::Impl::watch_deadline(Entry& entry) {
  const auto at = deadline_of(entry.lease);
  if (at >= entry.watched_at) return;
  entry.watched_at = at;
  deadlines.emplace(at, entry.lease.id);
  if (deadlines.size() > 2 * entries.size() + kDeadlinesToSweep) sweep_deadlines();
}

// Drops the deadlines of leases that ended long before them.
void Ledger::Impl::sweep_deadlines() {
  std::vector<Deadline> live;
  for (const auto& [id, entry] : entries)
    if (entry.watched_at != Instant::max()) live.emplace_back(entry.watched_at, id);
  deadlines = decltype(deadlines)(std::greater<>(), std::move(live));
}

// Removes the lease from all lists but the cards'; find() still returns it once.
void Ledger::Impl::finish(Entry& entry) {
  set_state(entry, State::ended);
  --entry.agent->leases;
  const auto id = entry.lease.id;
  const auto& holder = entry.lease.request.holder;
  if (holder.connection != 0) drop_from(by_connection, holder.connection, id);
  if (holder.pid != 0) drop_from(by_holder, std::pair{holder.pid, holder.start_time}, id);
  just_ended.emplace(id, entries.extract(id));
}

void Ledger::Impl::end(Entry& entry, EndReason ending, std::string reason, Changes& changes) {
  auto& lease = entry.lease;
  leave_key(entry);
  lease.ending = ending;
  lease.reason = std::move(reason);
  lease.ended_at = now;
  changes.push_back({Change::What::ended, lease.id, 0, {}, lease.reason});
  if (!is_held(lease)) {
    dequeue(entry);
    withdraw_asks(entry, changes);
    return finish(entry);
  }
  if (lease.state == State::yielding) yielded(entry);
  set_state(entry, State::draining);
  lease.over_use = 0;
  accrue(*entry.agent, now);
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    auto& state = cards[entry.part_states[i].card];
    const auto bytes = lease.parts[i].bytes;
    count_bytes(entry, entry.part_states[i].card, bytes, false);
    state.promises[entry.part_states[i].index].given_back_at = now;
    state.draining += bytes;
    ++state.changes;
    state.victims.erase({lease.request.priority, bytes, lease.id});
  }
  if (entry.agent->quota || policy.max_bytes_per_peer > 0) must_serve = true;
}

void Ledger::Impl::expire(Entry& entry, Changes& changes) {
  const auto& lease = entry.lease;
  if (lease.state == State::waiting) {
    auto pass = begin_pass();
    keep_for_those_ahead(entry, pass);
    const auto waited = human_duration(seconds_between(lease.requested_at, now));
    return end(
        entry, EndReason::timed_out,
        fmt::format("waited {} and there was no capacity: {}", waited, reason_for(entry, pass)),
        changes);
  }
  end(entry, EndReason::expired,
      fmt::format("not renewed within {}", human_duration(lease.request.ttl.count())), changes);
}

// Waiting requests get no time: the end of a wait can be reported without a store.
void Ledger::Impl::give_time(Lease& lease) const {
  if (lease.state == State::waiting || lease.state == State::draining) return;
  const auto until = later(now, std::min(lease.request.ttl, kGrace));
  lease.expires_at = std::max(lease.expires_at, until);
  if (lease.state == State::yielding) lease.yield_by = std::max(lease.yield_by, until);
}

void Ledger::Impl::due(Entry& entry, Changes& changes) {
  if (is_paused) give_time(entry.lease);
  if (deadline_of(entry.lease) > now) return watch_deadline(entry);  // it was renewed meanwhile
  if (entry.lease.expires_at <= now) return expire(entry, changes);
  yield_is_overdue(entry, changes);
  watch_deadline(entry);
}

Ledger::Outcome Ledger::Impl::judge(LeaseId id, const std::uint64_t* secret, Instant came,
                                    Entry*& found, Changes& changes) {
  const auto at = entries.find(id);
  if (at == entries.end()) return id == 0 || id > last_id ? Outcome::unknown : Outcome::over;
  found = &at->second;
  auto& lease = found->lease;
  if (secret != nullptr && lease.secret != *secret) return Outcome::wrong_secret;
  if (lease.state == State::draining) return Outcome::over;
  if (is_paused) give_time(lease);
  if (lease.expires_at > std::min(came, now)) return Outcome::done;
  expire(*found, changes);
  return Outcome::over;
}

Changes Ledger::Impl::end_all(std::vector<LeaseId> ids, EndReason ending,
                              const std::string& reason) {
  Changes changes;
  for (const auto id : ids)
    if (const auto at = entries.find(id); at != entries.end())
      if (at->second.lease.state != State::draining) end(at->second, ending, reason, changes);
  serve_if_needed(changes);
  return changes;
}

Ledger::Decision Ledger::Impl::reject(Entry& entry, Refusal refusal, Changes& changes) {
  auto& lease = entry.lease;
  lease.reason = refusal.reason;
  if (lease.request.on_unavailable != OnUnavailable::cpu)
    return {Verdict::refused, 0, std::move(refusal)};
  lease.id = ++last_id;
  lease.state = State::on_cpu;
  lease.request.ttl = std::min(lease.request.ttl, policy.cpu_ttl);
  lease.expires_at = later(now, lease.request.ttl);
  auto& entered = enter(std::move(lease));
  enqueue(entered);
  watch_deadline(entered);
  changes.push_back({Change::What::sent_to_cpu, last_id, 0, {}, refusal.reason});
  return {Verdict::on_cpu, last_id, std::move(refusal)};
}

Ledger::Decision Ledger::Impl::defer(Entry& entry, SchedulingPass& pass, Refusal refusal,
                                     Changes& changes) {
  auto& lease = entry.lease;
  lease.id = ++last_id;
  lease.state = State::waiting;
  lease.reason = refusal.reason;
  lease.expires_at = later(now, lease.request.wait);
  auto& entered = enter(std::move(lease));
  enqueue(entered);
  watch_deadline(entered);
  changes.push_back({Change::What::queued, last_id, 0, {}, refusal.reason});
  ask_to_yield(entered, pass, changes);
  return {Verdict::waiting, last_id, std::move(refusal)};
}

Ledger::Decision Ledger::Impl::ask(const LeaseRequest& request, std::uint64_t secret,
                                   Changes& changes) {
  Entry entry;  // becomes one of ours when it gets a number
  entry.lease.request = request;
  entry.lease.secret = secret;
  entry.lease.requested_at = now;
  entry.agent = &agent_named(request.agent);
  entry.peer = peer_named(request.peer);
  set_step(entry);
  const bool may_use_cpu = request.on_unavailable == OnUnavailable::cpu;
  if (auto never = why_never(request); !never.empty()) {
    if (may_use_cpu) check_may_use_cpu(request);
    return reject(entry, {std::move(never), {}, {}, {}}, changes);
  }
  auto pass = begin_pass();
  keep_for_those_ahead(entry, pass);
  const auto candidates = candidates_for(entry, pass, false);
  if (const auto choice = choose_for(entry, candidates); !choice.candidates.empty()) {
    entry.lease.id = ++last_id;
    auto& entered = enter(std::move(entry.lease));
    grant(entered, choice, candidates, changes);
    return {Verdict::granted, last_id, {}};
  }
  const bool may_wait = request.on_unavailable == OnUnavailable::wait && request.wait.count() > 0;
  if (may_use_cpu) check_may_use_cpu(request);
  if (may_wait) check_may_wait(request);
  auto refusal = refusal_for(entry, pass);
  if (may_wait) return defer(entry, pass, std::move(refusal), changes);
  return reject(entry, std::move(refusal), changes);
}

// ---- The outside ----

Ledger::Ledger(Policy policy) : impl_(std::make_unique<Impl>(std::move(policy))) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

Ledger::Decision Ledger::request(const LeaseRequest& request, std::uint64_t secret, Instant now,
                                 Changes& changes) {
  check(request);
  impl_->begin(now);
  impl_->check_limits(request);
  return impl_->ask(request, secret, changes);
}

Ledger::Outcome Ledger::verify(LeaseId id, std::uint64_t secret, std::uint64_t renewals,
                               Instant now, Changes& changes, Instant came) {
  impl_->begin(now);
  Entry* entry = nullptr;
  const auto outcome = impl_->judge(id, &secret, came, entry, changes);
  if (outcome == Outcome::over) impl_->serve_if_needed(changes);
  if (outcome != Outcome::done) return outcome;
  return entry->lease.renewals == renewals ? Outcome::done : Outcome::stale;
}

Ledger::Outcome Ledger::renew(LeaseId id, std::uint64_t secret, std::uint64_t renewals, Instant now,
                              Changes& changes, Instant came) {
  const auto outcome = verify(id, secret, renewals, now, changes, came);
  if (outcome != Outcome::done) return outcome;
  auto& lease = impl_->entries.at(id).lease;
  ++lease.renewals;
  if (lease.state != State::waiting) lease.expires_at = later(impl_->now, lease.request.ttl);
  changes.push_back({Change::What::renewed, id, 0, {}, {}});
  return Outcome::done;
}

Ledger::Outcome Ledger::release(LeaseId id, std::uint64_t secret, Instant now, Changes& changes) {
  impl_->begin(now);
  Entry* entry = nullptr;
  const auto outcome = impl_->judge(id, &secret, now, entry, changes);
  if (outcome == Outcome::done)
    impl_->end(*entry, EndReason::released, "released by its holder", changes);
  impl_->serve_if_needed(changes);
  return outcome;
}

Ledger::Outcome Ledger::leave(LeaseId id, std::uint64_t secret, Instant now, Changes& changes) {
  const auto at = impl_->entries.find(id);
  const bool others_ask =
      at != impl_->entries.end() && at->second.lease.secret == secret && at->second.requesters > 1;
  if (!others_ask) return release(id, secret, now, changes);
  --at->second.requesters;
  return Outcome::done;
}

Ledger::Outcome Ledger::revoke(LeaseId id, std::string_view reason, Instant now, Changes& changes) {
  impl_->begin(now);
  Entry* entry = nullptr;
  const auto outcome = impl_->judge(id, nullptr, now, entry, changes);
  if (outcome == Outcome::done)
    impl_->end(*entry, EndReason::revoked, std::string(reason), changes);
  impl_->serve_if_needed(changes);
  return outcome;
}

bool Ledger::set_enforcement(LeaseId id, Enforcement enforcement) {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return false;
  at->second.lease.enforcement = enforcement;
  return true;
}

bool Ledger::set_client_limit(LeaseId id, std::uint64_t bytes) {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return false;
  at->second.lease.client_limit = bytes;
  return true;
}

Changes Ledger::connection_closed(std::uint64_t connection, Instant now) {
  impl_->begin(now);
  const auto at = impl_->by_connection.find(connection);
  return at == impl_->by_connection.end()
             ? Changes{}
             : impl_->end_all(at->second, EndReason::released, "its connection was closed");
}

bool Ledger::is_bound(std::uint64_t connection) const noexcept {
  return impl_->by_connection.contains(connection);
}

Changes Ledger::holder_died(std::int64_t pid, std::uint64_t start_time, Instant now) {
  impl_->begin(now);
  const auto at = impl_->by_holder.find({pid, start_time});
  return at == impl_->by_holder.end() ? Changes{}
                                      : impl_->end_all(at->second, EndReason::holder_died,
                                                       fmt::format("its process {} is gone", pid));
}

Changes Ledger::tick(Instant now) {
  impl_->begin(now);
  Changes changes;
  auto& deadlines = impl_->deadlines;
  while (!deadlines.empty() && deadlines.top().first <= impl_->now) {
    const auto [at, id] = deadlines.top();
    deadlines.pop();
    const auto found = impl_->entries.find(id);
    if (found == impl_->entries.end() || found->second.watched_at != at) continue;
    found->second.watched_at = Instant::max();
    impl_->due(found->second, changes);
  }
  if (std::exchange(impl_->has_returns, false))
    for (CardIndex i = 0; i < impl_->cards.size(); ++i) impl_->report_returns(i, changes);
  impl_->ticked_at = impl_->now;
  impl_->serve_if_needed(changes);
  return changes;
}

void Ledger::pause() { impl_->is_paused = true; }

void Ledger::resume(Instant now) {
  impl_->begin(now);
  impl_->is_paused = false;
  impl_->must_serve = true;
  for (auto& [id, entry] : impl_->entries) impl_->give_time(entry.lease);
}

Instant Ledger::next_tick() const {
  const auto due = impl_->deadlines.empty() ? Instant::max() : impl_->deadlines.top().first;
  return impl_->has_returns ? std::min(due, later(impl_->ticked_at, kReturnsPause)) : due;
}

}  // namespace sluice::broker
