#include "broker/ledger/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "broker/ledger/accounts.h"
#include "broker/ledger/card_table.h"
#include "broker/ledger/deadlines.h"
#include "broker/ledger/lease_table.h"
#include "broker/ledger/lifecycle.h"
#include "broker/ledger/limits.h"
#include "broker/ledger/scheduler.h"

namespace sluice::broker {

namespace {

constexpr Seconds kReturnsPause{0.002};  // between slices of returns: requests come first

}  // namespace

// Joins the parts, and has the time.
struct Ledger::Impl {
  explicit Impl(Policy p) : policy(std::move(p)) {}

  void begin(Instant t);
  Outcome judge(LeaseId id, const std::uint64_t* secret, Instant came, Entry*& found,
                Changes& changes);
  Changes end_all(const std::vector<LeaseId>& ids, EndReason ending, const std::string& reason);
  Decision ask(const LeaseRequest& request, std::uint64_t secret, Changes& changes);
  Decision reject(Entry& entry, Refusal refusal, Changes& changes);
  Decision defer(Entry& entry, SchedulingPass& pass, Refusal refusal, Changes& changes);
  std::string broken_ending(const Lease& lease) const;

  Policy policy;
  Instant now{};
  Instant ticked_at{};
  Instant policy_at{};
  LeaseId last_id = 0;
  LeaseTable leases;
  Deadlines deadlines{leases};
  CardTable cards{policy};
  Accounts accounts{policy};
  Scheduler scheduler{policy, leases, deadlines, cards, accounts};
  Lifecycle lifecycle{policy, leases, deadlines, cards, accounts, scheduler};
};

// ---- The inside ----

void Ledger::Impl::begin(Instant t) {
  leases.forget_ended();
  cards.begin_call();
  now = std::max(now, t);
  accounts.forget_idle_agents(now);
}

Ledger::Outcome Ledger::Impl::judge(LeaseId id, const std::uint64_t* secret, Instant came,
                                    Entry*& found, Changes& changes) {
  found = leases.find(id);
  if (found == nullptr) return id == 0 || id > last_id ? Outcome::unknown : Outcome::over;
  auto& lease = found->lease;
  if (secret != nullptr && lease.secret != *secret) return Outcome::wrong_secret;
  if (lease.state == State::draining) return Outcome::over;
  if (scheduler.is_paused()) Lifecycle::give_time(lease, now);
  if (lease.expires_at > std::min(came, now)) return Outcome::done;
  lifecycle.expire(*found, now, changes);
  return Outcome::over;
}

Changes Ledger::Impl::end_all(const std::vector<LeaseId>& ids, EndReason ending,
                              const std::string& reason) {
  Changes changes;
  if (ids.empty()) return changes;
  for (const auto id : ids)
    if (auto* entry = leases.find(id); entry != nullptr && entry->lease.state != State::draining)
      lifecycle.end(*entry, ending, reason, now, changes);
  scheduler.serve_if_due(now, changes);
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
  lifecycle.enter_queue(std::move(lease), now);
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
  auto& entered = lifecycle.enter_queue(std::move(lease), now);
  changes.push_back({Change::What::queued, last_id, 0, {}, refusal.reason});
  scheduler.yields().ask(entered, pass, changes);
  return {Verdict::waiting, last_id, std::move(refusal)};
}

Ledger::Decision Ledger::Impl::ask(const LeaseRequest& request, std::uint64_t secret,
                                   Changes& changes) {
  const auto* peer = accounts.find_peer(request.peer);
  check_may_lease(policy, request, peer, leases.size());
  auto entry = scheduler.newcomer(request, now);  // becomes one of ours when it gets a number
  entry.lease.secret = secret;
  const bool may_use_cpu = request.on_unavailable == OnUnavailable::cpu;
  if (auto never = scheduler.why_never(request); !never.empty()) {
    if (may_use_cpu) check_may_use_cpu(policy, peer);
    return reject(entry, {std::move(never), {}, {}, {}}, changes);
  }
  auto pass = scheduler.pass_for(entry, now);
  const auto candidates = pass.candidates_for(entry, false);
  if (const auto choice = scheduler.choose_for(entry, candidates); !choice.candidates.empty()) {
    entry.lease.id = ++last_id;
    auto& entered = lifecycle.enter(std::move(entry.lease), now);
    scheduler.grant(entered, choice, candidates, now, changes);
    return {Verdict::granted, last_id, {}};
  }
  const bool may_wait = request.on_unavailable == OnUnavailable::wait && request.wait.count() > 0;
  if (may_use_cpu) check_may_use_cpu(policy, peer);
  if (may_wait) check_may_wait(policy, peer, scheduler.queue().waiting());
  auto refusal = scheduler.refusal_for(entry, pass);
  if (may_wait) return defer(entry, pass, std::move(refusal), changes);
  return reject(entry, std::move(refusal), changes);
}

std::string Ledger::Impl::broken_ending(const Lease& lease) const {
  const bool is_back = lease.state == State::draining;
  if (lease.state == State::ended) return on_lease(lease, "is over and still listed");
  if (is_back != (lease.ending != EndReason::none))
    return on_lease(lease, "is over and is not, by its state and its ending");
  if (!is_back && lease.expires_at <= ticked_at)
    return on_lease(lease, "is past its time and lives");
  if (lease.id == 0 || lease.id > last_id) return on_lease(lease, "has an unknown number");
  return {};
}

// ---- The outside ----

Ledger::Ledger(Policy policy) : impl_(std::make_unique<Impl>(std::move(policy))) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

void Ledger::set_policy(Policy policy) {
  impl_->policy = std::move(policy);
  impl_->policy_at = std::max(impl_->policy_at, impl_->now);
  impl_->accounts.apply_policy(impl_->leases);
  impl_->scheduler.apply_policy(impl_->now);
}

void Ledger::restore(std::vector<Lease> leases, LeaseId last_id) {
  auto& to = *impl_;
  to.last_id = last_id;
  std::erase_if(leases, [](const Lease& lease) { return lease.state == State::ended; });
  std::ranges::sort(leases, {}, &Lease::granted_at);  // for the agents' shares
  for (auto& lease : leases) {
    to.last_id = std::max(to.last_id, lease.id);
    to.policy_at = std::max(to.policy_at, lease.granted_at);  // the settings may be new
    auto& entry = to.lifecycle.enter(std::move(lease), to.now);
    if (entry.agent->leases == 1) entry.agent->share_at = entry.lease.granted_at;
    if (entry.lease.state == State::waiting || entry.lease.state == State::on_cpu)
      to.scheduler.add(entry);
    for (const auto& part : entry.lease.parts)
      to.cards.add_promise(entry, to.cards.index_of(part.uuid), part.bytes);
    if (is_held(entry.lease)) to.accounts.hold(entry);
    to.deadlines.watch(entry);
  }
  for (auto& [id, entry] : to.leases.all()) to.scheduler.yields().rejoin(entry);
}

Changes Ledger::observe(std::span<const Card> cards, Instant now, bool has_all) {
  impl_->begin(now);
  impl_->cards.set_has_all(has_all);
  Changes changes;
  for (const auto& card : cards)
    impl_->lifecycle.finish(impl_->cards.observe(card, impl_->now, changes));
  impl_->scheduler.cards_changed(impl_->now);
  impl_->scheduler.serve(impl_->now, changes);
  return changes;
}

Ledger::Decision Ledger::request(const LeaseRequest& request, std::uint64_t secret, Instant now,
                                 Changes& changes) {
  check(request);
  impl_->begin(now);
  return impl_->ask(request, secret, changes);
}

const Lease* Ledger::find_retried(const LeaseRequest& request) const {
  return impl_->leases.find_retried(request);
}

void Ledger::add_retry(LeaseId id, std::uint64_t connection) {
  auto& entry = *impl_->leases.find(id);
  ++entry.requesters;
  if (connection == 0 || connection == entry.lease.request.holder.connection) return;
  entry.lease.request.bound = true;  // a restart may have cut it off from the one before
  impl_->leases.bind(entry, connection);
}

Ledger::Outcome Ledger::verify(LeaseId id, std::uint64_t secret, std::uint64_t renewals,
                               Instant now, Changes& changes, Instant came) {
  impl_->begin(now);
  Entry* entry = nullptr;
  const auto outcome = impl_->judge(id, &secret, came, entry, changes);
  if (outcome == Outcome::over) impl_->scheduler.serve_if_due(impl_->now, changes);
  if (outcome != Outcome::done) return outcome;
  return entry->lease.renewals == renewals ? Outcome::done : Outcome::stale;
}

Ledger::Outcome Ledger::renew(LeaseId id, std::uint64_t secret, std::uint64_t renewals, Instant now,
                              Changes& changes, Instant came) {
  const auto outcome = verify(id, secret, renewals, now, changes, came);
  if (outcome != Outcome::done) return outcome;
  auto& lease = impl_->leases.find(id)->lease;
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
    impl_->lifecycle.end(*entry, EndReason::released, "released by its holder", impl_->now,
                         changes);
  impl_->scheduler.serve_if_due(impl_->now, changes);
  return outcome;
}

Ledger::Outcome Ledger::leave(LeaseId id, std::uint64_t secret, Instant now, Changes& changes) {
  auto* entry = impl_->leases.find(id);
  const bool others_ask =
      entry != nullptr && entry->lease.secret == secret && entry->requesters > 1;
  if (!others_ask) return release(id, secret, now, changes);
  --entry->requesters;
  return Outcome::done;
}

Ledger::Outcome Ledger::revoke(LeaseId id, std::string_view reason, Instant now, Changes& changes) {
  impl_->begin(now);
  Entry* entry = nullptr;
  const auto outcome = impl_->judge(id, nullptr, now, entry, changes);
  if (outcome == Outcome::done)
    impl_->lifecycle.end(*entry, EndReason::revoked, std::string(reason), impl_->now, changes);
  impl_->scheduler.serve_if_due(impl_->now, changes);
  return outcome;
}

bool Ledger::set_enforcement(LeaseId id, Enforcement enforcement) {
  auto* entry = impl_->leases.find(id);
  if (entry != nullptr) entry->lease.enforcement = enforcement;
  return entry != nullptr;
}

bool Ledger::set_client_limit(LeaseId id, std::uint64_t bytes) {
  auto* entry = impl_->leases.find(id);
  if (entry != nullptr) entry->lease.client_limit = bytes;
  return entry != nullptr;
}

Refusal Ledger::refusal(const LeaseRequest& request) const {
  auto& scheduler = impl_->scheduler;
  if (auto never = scheduler.why_never(request); !never.empty())
    return {std::move(never), {}, {}, {}};
  const auto entry = scheduler.newcomer(request, impl_->now);
  return scheduler.refusal_for(entry, scheduler.pass_for(entry, impl_->now));
}

std::optional<Refusal> Ledger::refusal(LeaseId id) const {
  const auto* entry = impl_->leases.find(id);
  if (entry == nullptr) return std::nullopt;
  if (entry->lease.state != State::waiting && entry->lease.state != State::on_cpu)
    return std::nullopt;
  auto& scheduler = impl_->scheduler;
  if (auto never = scheduler.why_never(entry->lease.request); !never.empty())
    return Refusal{std::move(never), {}, {}, {}};
  return scheduler.refusal_for(*entry, scheduler.pass_for(*entry, impl_->now));
}

Changes Ledger::connection_closed(std::uint64_t connection, Instant now) {
  impl_->begin(now);
  return impl_->end_all(impl_->leases.bound_to(connection), EndReason::released,
                        "its connection was closed");
}

bool Ledger::is_bound(std::uint64_t connection) const noexcept {
  return impl_->leases.is_bound(connection);
}

Changes Ledger::holder_died(std::int64_t pid, std::uint64_t start_time, Instant now) {
  impl_->begin(now);
  return impl_->end_all(impl_->leases.held_by(pid, start_time), EndReason::holder_died,
                        fmt::format("its process {} is gone", pid));
}

Changes Ledger::tick(Instant now) {
  impl_->begin(now);
  Changes changes;
  while (auto* entry = impl_->deadlines.pop_due(impl_->now))
    impl_->lifecycle.due(*entry, impl_->now, changes);
  impl_->lifecycle.finish(impl_->cards.report_more_returns(impl_->now, changes));
  impl_->ticked_at = impl_->now;
  impl_->scheduler.serve_if_due(impl_->now, changes);
  return changes;
}

void Ledger::pause() { impl_->scheduler.pause(); }

void Ledger::resume(Instant now) {
  impl_->begin(now);
  impl_->scheduler.resume();
  for (auto& [id, entry] : impl_->leases.all()) Lifecycle::give_time(entry.lease, impl_->now);
}

Instant Ledger::next_tick() const {
  const auto due = impl_->deadlines.next();
  return impl_->cards.has_more_returns() ? std::min(due, later(impl_->ticked_at, kReturnsPause))
                                         : due;
}

// ---- What it knows ----

const Lease* Ledger::find(LeaseId id) const { return impl_->leases.find_lease(id); }

std::size_t Ledger::size() const noexcept { return impl_->leases.size(); }

std::vector<const Lease*> Ledger::live() const { return impl_->leases.live(); }

std::vector<const Lease*> Ledger::page(bool on_cpu, LeaseId after, std::size_t limit) const {
  return impl_->leases.page(on_cpu, after, limit);
}

std::vector<const Lease*> Ledger::waiting() const {
  std::vector<const Lease*> found;
  for (const auto* entry : impl_->scheduler.queue().in_order(impl_->now))
    found.push_back(&entry->lease);
  return found;
}

Ledger::Counts Ledger::count() const noexcept {
  const auto& queue = impl_->scheduler.queue();
  const auto waiting = queue.waiting(), on_cpu = queue.on_cpu().size();
  return {impl_->leases.size() - waiting - on_cpu, waiting, on_cpu};
}

CardCapacity Ledger::capacity(const std::string& uuid, Instant now) const {
  const auto* state = impl_->cards.find(uuid);
  if (state == nullptr || !state->is_seen) return {0, 0, 0, "this GPU has not been seen"};
  return capacity_on(state->card, state->promises, now, impl_->policy.stale);
}

std::map<std::string, std::uint64_t> Ledger::leased() const { return impl_->cards.leased(); }

std::vector<Promise> Ledger::promises(const std::string& uuid) const {
  const auto* state = impl_->cards.find(uuid);
  return state == nullptr ? std::vector<Promise>{} : state->promises;
}

LeaseId Ledger::last_id() const noexcept { return impl_->last_id; }

std::string Ledger::broken_invariant() const {
  const auto& in = *impl_;
  for (const auto& [id, entry] : in.leases.all())
    if (auto problem = in.broken_ending(entry.lease); !problem.empty()) return problem;
  for (auto problem : {in.leases.broken_invariant(), in.deadlines.broken_invariant(),
                       in.cards.broken_invariant(in.leases), in.scheduler.broken_invariant(),
                       in.accounts.broken_invariant(in.leases, in.policy_at)})
    if (!problem.empty()) return problem;
  return {};
}

}  // namespace sluice::broker
