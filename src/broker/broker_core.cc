#include "broker/broker_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "broker/enforce/holder.h"
#include "broker/lease/idempotency.h"
#include "broker/store/restore.h"

namespace sluice::broker {

namespace {

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

// One that was given before this limit was.
void shorten_on_cpu(Lease& lease, Seconds max_ttl, Instant now) {
  if (lease.state != State::on_cpu) return;
  lease.request.ttl = std::min(lease.request.ttl, max_ttl);
  lease.expires_at = std::min(lease.expires_at, later(now, max_ttl));
}

Verdict verdict_of(State state) {
  switch (state) {
    case State::held:
    case State::yielding: return Verdict::granted;
    case State::waiting: return Verdict::waiting;
    case State::on_cpu: return Verdict::on_cpu;
    default: return Verdict::refused;  // over; lease.state says so
  }
}

void add_parts(Lease& to, const Lease& more) {
  for (const auto& part : more.parts) {
    const auto same = std::ranges::find(to.parts, part.uuid, &Part::uuid);
    if (same == to.parts.end())
      to.parts.push_back(part);
    else
      same->bytes += part.bytes;
  }
}

}  // namespace

BrokerCore::BrokerCore(const Broker::Options& options, Store& store, HolderWatch* watch,
                       std::atomic<std::uint64_t>& decisions)
    : config_(options.config),
      gpu_(options.gpu),
      ledger_(policy_of(config_)),
      store_(store),
      journal_(store),
      holders_(watch),
      usage_(store, options.plans),
      enforcer_(config_, {has_host_pids(options.proc), !options.program.empty()}, cards_, holders_,
                ledger_, journal_),
      decisions_(decisions) {}

void BrokerCore::restore(const Moment& at) {
  auto loaded = store_.load(at);
  auto found = restored(std::move(loaded.leases), loaded.same_boot, at);
  for (auto& lease : found.live) shorten_on_cpu(lease, Seconds(config_.cpu_ttl_s), at.now);
  usage_.restore(std::move(loaded.footprints));
  for (const auto& lease : found.ended) journal_.add(lease), statistics_.show_ended(lease);
  for (const auto& lease : found.live) journal_.add(lease);
  if (!found.live.empty())
    log::info("leases: {} came back from before the restart", found.live.size());
  ledger_.restore(std::move(found.live), loaded.last_id);
  save(at);  // where the disk is full, later
  for (const auto* lease : ledger_.live()) holders_.follow(*lease);
}

void BrokerCore::reload(const BrokerConfig& config, const device::GpuConfig& gpu) {
  config_ = config;
  gpu_ = gpu;
  ledger_.set_policy(policy_of(config));
}

// ---- changes of the ledger

bool BrokerCore::take(const Changes& changes, const Moment& at) {
  for (const auto& change : changes) note(change, at);
  const bool is_saved = save(at);
  alarm_.set(ledger_.next_tick());
  return is_saved;
}

// A lease that ended is found only until the ledger's next change, so it is copied here.
void BrokerCore::note(const Change& change, const Moment& at) {
  const auto* found = ledger_.find(change.lease);
  if (found == nullptr) return;
  if (change.what == What::granted) {
    ledger_.set_enforcement(change.lease, enforcer_.tier_of(*found, at.now));
    enforcer_.granted(change.lease);
  }
  statistics_.count(change, *found);
  if (is_decision(change, *found)) ++decisions_;
  holders_.follow(*found);
  if (change.what == What::terminate) to_end_.push_back(found->request.holder);
  if (is_over(*found)) enforcer_.ended(change.lease);
  if (change.what != What::renewed) journal_.add_event({change, as_of(change, *found), at});
  journal_.add(*found);
}

bool BrokerCore::save(const Moment& at) {
  const auto saved = journal_.save(at);
  if (saved == Journal::Saved::failed) ledger_.pause();
  if (saved == Journal::Saved::failed || saved == Journal::Saved::not_tried) return false;
  if (saved == Journal::Saved::all_again) ledger_.resume(at.now);
  journal_.move_events_to(outbox_);
  outbox_.notify();
  return true;
}

void BrokerCore::write_anew(const Moment& at) noexcept {
  store_.write_anew(ledger_.live(), usage_.all(), at);
}

// ---- requests

LeaseRequest BrokerCore::completed(LeaseRequest request) const {
  if (request.bytes == 0) {
    const auto known = gpu_.memory_allocation.find(request.agent);
    require(known != gpu_.memory_allocation.end(),
            "memory_gb is missing, and gpu.memory_allocation does not name this agent");
    request.bytes = static_cast<std::uint64_t>(std::llround(known->second * kGiB));
  }
  if (!request.device.empty()) request.device = cards_.uuid_of(request.device);
  return request;
}

// A retry under the key of a lease in force gets that lease.
std::optional<LeaseResponse> BrokerCore::find_retried(const LeaseRequest& request,
                                                      const Moment& at) {
  const auto* lease = ledger_.find_retried(request);
  if (lease == nullptr) return std::nullopt;
  const auto token = token_of(*lease);
  Changes changes;
  const auto outcome = ledger_.verify(token.id, token.secret, token.renewals, at.now, changes);
  take(changes, at);
  if (outcome != Ledger::Outcome::done) return std::nullopt;  // its time is over
  lease = ledger_.find(token.id);
  if (lease->request.idempotency_key != request.idempotency_key)
    throw KeyReused(request.idempotency_key);
  journal_.check_stored(*lease);
  ledger_.add_retry(token.id, request.holder.connection);
  auto response = describe(*lease, at.now);
  if (const auto refusal = ledger_.refusal(token.id)) add_refusal(response, *refusal);
  return response;
}

LeaseResponse BrokerCore::ask(LeaseRequest request, std::uint64_t secret, const Moment& at) {
  request = completed(std::move(request));
  Changes changes;
  const auto result = ledger_.request(request, secret, at.now, changes);
  if (!take(changes, at) && result.id != 0) {
    Changes undone;
    ledger_.release(result.id, secret, at.now, undone);
    take(undone, at);
    journal_.fail();
  }
  const auto* lease = result.id == 0 ? nullptr : ledger_.find(result.id);
  Lease refused;
  if (lease == nullptr)
    refused.request = std::move(request), refused.reason = result.refusal.reason,
    refused.requested_at = at.now;
  auto response = describe(lease == nullptr ? refused : *lease, at.now);
  response.verdict = result.verdict;
  add_refusal(response, result.refusal);
  if (result.verdict == Verdict::refused) statistics_.count_refused();
  return response;
}

LeaseResponse BrokerCore::request(LeaseRequest request, std::uint64_t secret, Instant start,
                                  const Moment& at) {
  if (auto before = find_retried(request, at)) return std::move(*before);
  auto response = ask(std::move(request), secret, at);
  if (response.verdict == Verdict::granted)
    statistics_.add_grant(seconds_between(start, Steady::now()));
  return response;
}

LeaseResponse BrokerCore::describe(const Lease& lease, Instant now) const {
  LeaseResponse response;
  response.lease = lease;
  response.verdict = verdict_of(lease.state);
  response.batch = usage_.batch_for(lease, cards_.memory_for(lease), gpu_);
  if (lease.id != 0 && response.verdict == Verdict::granted)
    response.lease.enforcement = enforcer_.tier_of(lease, now);
  add_env(response);
  return response;
}

void BrokerCore::add_env(LeaseResponse& response) const {
  std::vector<EnvCard> cards;
  for (const auto& part : response.lease.parts)
    if (const auto* s = cards_.find(part.uuid)) {
      const bool is_nvidia = s->vendor == device::Vendor::nvidia;
      cards.push_back({s->card.uuid, s->card.bus, is_nvidia, s->memory_total});
      if (s->index) response.device_indexes.push_back(*s->index);
    }
  const bool has_answer =
      response.verdict == Verdict::granted || response.verdict == Verdict::on_cpu;
  if (has_answer) response.env = env_for(response.lease, cards, cards_.has_mps_daemon());
}

void BrokerCore::add_refusal(LeaseResponse& response, const Refusal& refusal) const {
  response.refusal = refusal;
  for (const auto id : refusal.blocked_by)
    if (const auto* other = ledger_.find(id)) response.blocked_by.push_back(*other);
}

std::optional<LeaseResponse> BrokerCore::look_up(LeaseId id, Instant now) const {
  if (const auto* lease = ledger_.find(id)) {
    journal_.check_stored(*lease);
    return describe(*lease, now);
  }
  if (const auto* newer = journal_.find_unsaved(id)) return describe(*newer, now);
  return std::nullopt;
}

std::optional<LeaseError> BrokerCore::renew(const Token& token,
                                            std::optional<std::uint64_t> client_limit, Instant came,
                                            const Moment& at, LeaseResponse& response) {
  Changes changes;
  const auto outcome = ledger_.renew(token.id, token.secret, token.renewals, at.now, changes, came);
  const bool is_done = outcome == Ledger::Outcome::done;
  if (client_limit && is_done) {
    ledger_.set_client_limit(token.id, *client_limit);
    enforcer_.judge(token.id, at.now);
  }
  const bool is_stored = take(changes, at);
  if (!is_done) return error_for(outcome, token, at);
  if (!is_stored) journal_.fail();
  response = describe(*ledger_.find(token.id), at.now);
  return std::nullopt;
}

std::optional<LeaseError> BrokerCore::error_for(Ledger::Outcome outcome, const Token& token,
                                                const Moment& at) const {
  using Outcome = Ledger::Outcome;
  const auto* lease = ledger_.find(token.id);
  switch (outcome) {
    case Outcome::done: return std::nullopt;
    case Outcome::unknown: break;
    case Outcome::over: {
      const auto ended = journal_.find(token.id, at);
      if (!ended) break;  // so long ago that it is not kept, lost, or never given
      return LeaseError(outcome,
                        fmt::format("lease {} is over ({}): {}", token.id, to_string(ended->ending),
                                    ended->reason),
                        std::nullopt);
    }
    case Outcome::wrong_secret:
      return LeaseError(outcome, fmt::format("the token is not that of lease {}", token.id),
                        std::nullopt);
    case Outcome::stale:
      return LeaseError(
          outcome,
          fmt::format("the token was used before: lease {} has been renewed since, and the "
                      "response to that has the current token",
                      token.id),
          lease == nullptr ? std::nullopt : std::optional(token_of(*lease)));
  }
  return LeaseError(Outcome::unknown, fmt::format("there is no lease {}", token.id), std::nullopt);
}

// The token must be the present one of a lease in force.
void BrokerCore::report(const Token& token, const UsageReport& usage, const Moment& at) {
  journal_.require();
  Changes changes;
  const auto outcome = ledger_.verify(token.id, token.secret, token.renewals, at.now, changes);
  const auto lease = outcome == Ledger::Outcome::done ? *ledger_.find(token.id) : Lease{};
  take(changes, at);
  if (const auto error = error_for(outcome, token, at)) throw *error;
  usage_.add(lease, usage, cards_.memory_for(lease), gpu_, at);
}

// ---- samples

bool BrokerCore::observe(Sample sample, const watch::Snapshot& snapshot, const Moment& at) {
  if (!cards_.take_in(std::move(sample.card_snapshots), snapshot.sequence, snapshot.has_all_gpus,
                      sample.mps_daemon))
    return false;
  const auto changes = ledger_.observe(sample.cards, at.now, snapshot.has_all_gpus);
  enforcer_.judge_all(at.now);
  take(changes, at);
  return true;
}

// A process with several leases is one owner, named by the first of them: which of them its
// bytes belong to cannot be seen.
std::vector<watch::OwnerMemory> BrokerCore::memory_in_use() const {
  std::map<ProcessId, Lease> owners;
  for (const auto* lease : ledger_.live()) {
    if (!is_held(*lease)) continue;
    const auto& holder = lease->request.holder;
    const auto [owner, is_new] = owners.try_emplace({holder.pid, holder.start_time}, *lease);
    if (!is_new) add_parts(owner->second, *lease);
  }
  std::vector<watch::OwnerMemory> all;
  for (const auto& [process, lease] : owners) {
    const auto used = cards_.used_by(lease);
    if (!used) continue;
    const auto& agent = lease.request.agent;
    all.push_back({watch::OwnerMemory::Kind::lease, fmt::format("lease-{}", lease.id), agent,
                   fmt::format("lease {} of {} (pid {})", lease.id, agent, process.first), *used,
                   promised(lease)});
  }
  return all;
}

Broker::Stats BrokerCore::stats() const {
  auto stats = statistics_.stats(ledger_.live());
  stats.stores_failed = journal_.failures();
  return stats;
}

LeaseList BrokerCore::list(const LeasePage& page, const Moment& at) const {
  return list_leases(ledger_, cards_, statistics_.recent(), page, at);
}

}  // namespace sluice::broker
