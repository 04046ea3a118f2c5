#include "broker/broker.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "broker/broker_impl.h"
#include "broker/enforce/enforce_mps.h"
#include "broker/enforce/holder.h"
#include "broker/lease/idempotency.h"
#include "broker/store/restore.h"

namespace sluice::broker {

namespace {

constexpr auto kForgetEvery = std::chrono::minutes(1);
constexpr auto kMaxSleep = std::chrono::seconds(1);

std::uint64_t random_secret() {
  std::uint64_t secret = 0;
  while (secret == 0)
    if (::getrandom(&secret, sizeof secret, 0) != sizeof secret) secret = 0;
  return secret;
}

std::uint64_t gib_bytes(double gb) { return static_cast<std::uint64_t>(std::llround(gb * kGiB)); }

std::map<std::string, std::uint64_t> in_bytes(const std::map<std::string, double>& gb) {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& [name, value] : gb) bytes[name] = gib_bytes(value);
  return bytes;
}

Policy policy_of(const BrokerConfig& c) {
  Policy p;
  p.stale = Seconds(c.stale_s), p.ageing = Seconds(c.ageing_s);
  p.hold_after = Seconds(c.hold_after_s), p.hold_for = Seconds(c.hold_for_s);
  p.yield_within = Seconds(c.yield_within_s);
  if (c.escalation == "revoke") p.escalate = Policy::Escalate::revoke;
  if (c.escalation == "terminate") p.escalate = Policy::Escalate::terminate;
  p.preempt_other_users = c.preempt_other_users;
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  p.max_leases_per_peer = count(c.max_leases_per_peer);
  p.max_waiting_per_peer = count(c.max_waiting_per_peer);
  p.max_cpu_leases_per_peer = count(c.max_cpu_leases_per_peer);
  p.max_leases_per_agent = count(c.max_leases_per_agent);
  p.max_bytes_per_peer = gib_bytes(c.max_gb_per_peer);
  p.cpu_ttl = Seconds(c.cpu_ttl_s);
  p.quotas = in_bytes(c.quotas_gb);
  p.reservations = in_bytes(c.reservations_gb);
  return p;
}

// One that was given before this limit was.
void shorten_on_cpu(Lease& lease, Seconds max_ttl, Instant now) {
  if (lease.state != State::on_cpu) return;
  lease.request.ttl = std::min(lease.request.ttl, max_ttl);
  lease.expires_at =
      std::min(lease.expires_at, now + std::chrono::duration_cast<Instant::duration>(max_ttl));
}

Store::Options store_options(const Broker::Options& options) {
  Store::Options made{options.state_dir, boot_id(options.proc)};
  if (options.config.durability == "power") made.durability = Durability::power;
  return made;
}

}  // namespace

Broker::Impl::Impl(Options o)
    : options(std::move(o)),
      host_pids(has_host_pids(options.proc)),
      config(options.config),
      gpu(options.gpu),
      ledger(policy_of(config)),
      store(store_options(options)),
      groups(
          options.cgroup, options.proc,
          options.state_dir.empty() || !config.cgroups ? "" : options.state_dir + "/leases.groups"),
      driver_limits(options.program) {
  if (options.threads)
    watch = std::make_unique<HolderWatch>(
        options.proc, [this](std::int64_t pid, std::uint64_t start) { holder_died(pid, start); });
  const Lock lock(mutex);
  restore();
  if (config.cgroups) {
    const auto live = live_ids();
    groups.sweep(live);
    for (const auto id : live)
      if (groups.exists(id)) groups_before.insert(id);
  }
  if (!options.threads) return;
  thread = std::jthread([this](std::stop_token stop) { timer(stop); });
  delivery_thread = std::jthread([this](std::stop_token stop) { deliver_loop(stop); });
}

// The callers of everything below first.
Broker::Impl::~Impl() {
  thread = {};
  watch.reset();
  delivery_thread = {};
}

void Broker::Impl::restore() {
  const auto at = moment();
  auto loaded = store.load(at);
  auto found = restored(std::move(loaded.leases), loaded.same_boot, at);
  for (auto& lease : found.live) shorten_on_cpu(lease, Seconds(config.cpu_ttl_s), at.now);
  footprints = std::move(loaded.footprints);
  for (const auto& lease : found.ended) unsaved.emplace(lease.id, lease), show_ended(lease);
  for (const auto& lease : found.live) unsaved.emplace(lease.id, lease);
  if (!found.live.empty())
    log::info("leases: {} came back from before the restart", found.live.size());
  ledger.restore(std::move(found.live), loaded.last_id);
  save(at);  // where the disk is full, later
  for (const auto* lease : ledger.live()) follow_holder(*lease);
}

// ---- requests of callers

Broker::Broker(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() { on_event(nullptr); }

LeaseRequest Broker::Impl::completed(LeaseRequest request) const {
  if (request.bytes == 0) {
    const auto known = gpu.memory_allocation.find(request.agent);
    require(known != gpu.memory_allocation.end(),
            "memory_gb is missing, and gpu.memory_allocation does not name this agent");
    request.bytes = static_cast<std::uint64_t>(std::llround(known->second * kGiB));
  }
  // The name of a card that is still to come is kept as it is: the ledger matches it, too.
  const bool may_come = !has_all && find_card_snapshots(card_snapshots, request.device).empty();
  if (!request.device.empty() && !card_snapshots.empty() && !may_come)
    request.device = uuid_of(request.device);
  return request;
}

std::string Broker::Impl::uuid_of(const std::string& device) const {
  const auto found = find_card_snapshots(card_snapshots, device);
  if (found.size() == 1) return found.front()->card.uuid;
  std::string names;
  for (const auto& s : card_snapshots)
    names +=
        fmt::format("{}{} {} ({})", names.empty() ? "" : ", ",
                    s.card.index.empty() ? s.card.bus : s.card.index, s.card.uuid, s.card.name);
  throw Error(Code::invalid_argument,
              fmt::format("device '{}' names {}; there are {}", device,
                          found.empty() ? "no GPU here" : "several GPUs", names));
}

LeaseRequest Broker::read(std::string_view body) const {
  BrokerConfig limits;
  {
    const Lock lock(impl_->mutex);
    limits.default_ttl_s = impl_->config.default_ttl_s;
    limits.max_ttl_s = impl_->config.max_ttl_s;
  }
  return lease_request_from_json(body, limits);
}

// A retry under the key of a lease in force gets that lease.
std::optional<LeaseResponse> Broker::Impl::find_retried(const LeaseRequest& request,
                                                        const Moment& at) {
  const auto* lease = ledger.find_retried(request);
  if (lease == nullptr) return std::nullopt;
  const auto token = token_of(*lease);
  Changes changes;
  const auto outcome = ledger.verify(token.id, token.secret, token.renewals, at.now, changes);
  take(changes, at);
  if (outcome != Ledger::Outcome::done) return std::nullopt;  // its time is over
  lease = ledger.find(token.id);
  if (lease->request.idempotency_key != request.idempotency_key)
    throw KeyReused(request.idempotency_key);
  check_stored(*lease);
  ledger.add_retry(token.id, request.holder.connection);
  auto response = describe(*lease, at.now);
  if (const auto refusal = ledger.refusal(token.id)) add_refusal(response, *refusal);
  return response;
}

LeaseResponse Broker::Impl::ask(LeaseRequest request, std::uint64_t secret, const Moment& at) {
  request = completed(std::move(request));
  Changes changes;
  const auto result = ledger.request(request, secret, at.now, changes);
  if (!take(changes, at) && result.id != 0) {
    Changes undone;
    ledger.release(result.id, secret, at.now, undone);
    take(undone, at);
    store_failed();
  }
  const auto* lease = result.id == 0 ? nullptr : ledger.find(result.id);
  Lease refused;
  if (lease == nullptr)
    refused.request = std::move(request), refused.reason = result.refusal.reason,
    refused.requested_at = at.now;
  auto response = describe(lease == nullptr ? refused : *lease, at.now);
  response.verdict = result.verdict;
  add_refusal(response, result.refusal);
  if (result.verdict == Verdict::refused) ++stats.refused;
  return response;
}

LeaseResponse Broker::request(const LeaseRequest& original) {
  const auto start = Steady::now();
  const auto secret = random_secret();
  auto request = original;
  request.holder = identified(request.holder, impl_->options.proc);
  LeaseResponse response;
  {
    const Lock lock(impl_->mutex);
    impl_->require_store();
    const auto at = impl_->moment();
    if (auto before = impl_->find_retried(request, at)) {
      response = std::move(*before);
    } else {
      response = impl_->ask(std::move(request), secret, at);
      if (response.verdict == Verdict::granted)
        impl_->latencies.add(seconds_between(start, Steady::now()));
    }
    response.for_holder = true;
  }
  impl_->after();
  if (response.verdict == Verdict::granted && impl_->options.config.cgroups) {
    const Lock lock(impl_->mutex);
    const auto* lease = impl_->ledger.find(response.lease.id);
    if (lease != nullptr) response.lease.enforcement = lease->enforcement;
  }
  return response;
}

LeaseResponse Broker::Impl::look_up(LeaseId id) const {
  const auto at = moment();
  {
    const Lock lock(mutex);
    if (const auto* lease = ledger.find(id)) {
      check_stored(*lease);
      return describe(*lease, at.now);
    }
    if (const auto newer = unsaved.find(id); newer != unsaved.end())
      return describe(newer->second, at.now);
  }
  const auto ended = store.find(id, at);
  if (!ended) throw Error(Code::not_found, fmt::format("there is no lease {}", id));
  const Lock lock(mutex);
  return describe(*ended, at.now);
}

LeaseResponse Broker::status(LeaseId id) const {
  auto response = impl_->look_up(id);
  const Lock lock(impl_->mutex);
  if (const auto refusal = impl_->ledger.refusal(id)) {
    impl_->add_refusal(response, *refusal);
    response.lease.reason = refusal->reason;
  }
  return response;
}

std::uint64_t Broker::decisions() const noexcept { return impl_->decisions; }

// Waiting clients poll this often, so it leaves out the obstacles.
LeaseResponse Broker::status(const Token& token) const {
  auto response = impl_->look_up(token.id);
  if (response.lease.secret != token.secret)
    throw LeaseError(Ledger::Outcome::wrong_secret,
                     fmt::format("the token is not that of lease {}", token.id), std::nullopt);
  response.for_holder = true;
  if (response.lease.ending == EndReason::timed_out) {
    const Lock lock(impl_->mutex);
    impl_->add_refusal(response, impl_->ledger.refusal(response.lease.request));
  }
  return response;
}

LeaseResponse Broker::renew(const Token& token, std::optional<std::uint64_t> client_limit) {
  const auto came = impl_->options.now();  // who waits for the lock is not late for that
  LeaseResponse response;
  std::optional<LeaseError> refused;
  {
    const Lock lock(impl_->mutex);
    impl_->require_store();
    const auto at = impl_->moment();
    Changes changes;
    const auto outcome =
        impl_->ledger.renew(token.id, token.secret, token.renewals, at.now, changes, came);
    if (client_limit && outcome == Ledger::Outcome::done) {
      impl_->ledger.set_client_limit(token.id, *client_limit);
      impl_->judge_enforcement(token.id, at.now);
    }
    const bool is_stored = impl_->take(changes, at);
    if (outcome != Ledger::Outcome::done) {
      refused = impl_->lease_error(outcome, token, at);
    } else if (!is_stored) {
      impl_->store_failed();
    } else {
      response = impl_->describe(*impl_->ledger.find(token.id), at.now);
      response.for_holder = true;
    }
  }
  impl_->after();
  if (refused) throw *refused;
  return response;
}

template <class How>
void Broker::Impl::end(const Token& token, How how) {
  std::optional<LeaseError> refused;
  {
    const Lock lock(mutex);
    const auto at = moment();
    Changes changes;
    const auto outcome = how(ledger, at.now, changes);
    take(changes, at);  // where it cannot be stored now, it is as soon as it can
    if (outcome != Ledger::Outcome::done) refused = lease_error(outcome, token, at);
  }
  after();
  if (refused) throw *refused;
}

void Broker::release(const Token& token) {
  impl_->end(token, [&](Ledger& ledger, Instant now, Changes& changes) {
    return ledger.release(token.id, token.secret, now, changes);
  });
}

void Broker::leave(const Token& token) {
  impl_->end(token, [&](Ledger& ledger, Instant now, Changes& changes) {
    return ledger.leave(token.id, token.secret, now, changes);
  });
}

void Broker::revoke(LeaseId id, std::string_view reason) {
  require(!reason.empty() && is_plain_text(reason),
          "a reason is UTF-8 text without control characters");
  reason = utf8_prefix(reason, kMaxReasonBytes);
  impl_->end({id, 0, 0}, [&](Ledger& ledger, Instant now, Changes& changes) {
    return ledger.revoke(id, reason, now, changes);
  });
}

void Broker::connection_closed(std::uint64_t connection) noexcept {
  if (connection == 0) return;
  try {
    {
      const Lock lock(impl_->mutex);
      const auto at = impl_->moment();
      impl_->take(impl_->ledger.connection_closed(connection, at.now), at);
    }
    impl_->after();
  } catch (const std::exception& e) {
    log::error("leases: closing connection {}: {}", connection, e.what());
  }
}

bool Broker::is_bound(std::uint64_t connection) const {
  const Lock lock(impl_->mutex);
  return impl_->ledger.is_bound(connection);
}

// ---- what happens by itself

void Broker::observe(const watch::Snapshot& snapshot) {
  std::set<ProcessId> holders;
  device::GpuConfig gpu;
  std::string mps_dir;
  {
    const Lock lock(impl_->mutex);
    holders = impl_->holders(), gpu = impl_->gpu, mps_dir = impl_->config.mps_dir;
  }
  auto card_snapshots = card_snapshots_of(snapshot, gpu, holders, impl_->options.proc);
  const bool mps_daemon = mps_daemon_runs(mps_dir, impl_->options.proc);
  std::vector<Card> cards;
  for (const auto& card_snapshot : card_snapshots) cards.push_back(card_snapshot.card);
  {
    const Lock lock(impl_->mutex);
    if (snapshot.sequence != 0 && snapshot.sequence < impl_->sequence) return;
    impl_->sequence = snapshot.sequence;
    impl_->card_snapshots = std::move(card_snapshots);
    impl_->has_all = snapshot.has_all_gpus;
    impl_->mps_daemon = mps_daemon;
    const auto at = impl_->moment();
    const auto changes = impl_->ledger.observe(cards, at.now, impl_->has_all);
    impl_->judge_enforcement(at);
    impl_->take(changes, at);
  }
  impl_->after();
  if (impl_->options.config.cgroups) impl_->check_groups();
}

std::map<std::string, std::uint64_t> Broker::leased() const {
  const Lock lock(impl_->mutex);
  return impl_->ledger.leased();
}

void Broker::Impl::holder_died(std::int64_t pid, std::uint64_t start_time) {
  {
    const Lock lock(mutex);
    const auto at = moment();
    take(ledger.holder_died(pid, start_time, at.now), at);
  }
  after();
}

void Broker::Impl::check_holders() {
  std::set<ProcessId> all;
  {
    const Lock lock(mutex);
    all = holders();
  }
  for (const auto& [pid, start_time] : all)
    if (!is_alive(pid, start_time, options.proc)) holder_died(pid, start_time);
}

void Broker::Impl::tick() {
  if (!watch) check_holders();
  if (options.config.cgroups) collect_limits();
  const auto at = moment();  // before the lock: those who wait for it may have renewals
  {
    const Lock lock(mutex);
    take(ledger.tick(at.now), at);
    if (at.now >= forget_at) {
      forget_at = at.now + kForgetEvery;
      try {
        store.forget_old(at);
      } catch (const Error& e) {
        log::warn("leases: old ones cannot be forgotten: {}", e.what());
      }
    }
  }
  after();
}

void Broker::tick() { impl_->tick(); }

void Broker::Impl::timer(std::stop_token stop) {
  while (!stop.stop_requested()) {
    try {
      tick();
    } catch (const std::exception& e) {
      log::error("leases: {}", e.what());
    }
    const Lock lock(mutex);
    const auto now = options.now();
    wake_at = std::min(now + kMaxSleep, ledger.next_tick());
    for (auto t = now; t < wake_at && !stop.stop_requested(); t = options.now()) {
      wakes_sooner = false;
      woken.wait_for(mutex, stop, wake_at - t, [this]() REQUIRES(mutex) { return wakes_sooner; });
    }
  }
}

void Broker::Impl::wake_timer() {
  const auto next = ledger.next_tick();
  if (!options.threads || next >= wake_at) return;
  wake_at = next;
  wakes_sooner = true;
  woken.notify_one();
}

void Broker::reload(const BrokerConfig& config, const device::GpuConfig& gpu) {
  const Lock lock(impl_->mutex);
  impl_->config = config;
  impl_->gpu = gpu;
  impl_->ledger.set_policy(policy_of(config));
}

}  // namespace sluice::broker
