#include "broker/broker.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "broker/broker_core.h"
#include "broker/enforce/enforce_mps.h"
#include "broker/enforce/holder.h"
#include "broker/lease_list_json.h"

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

Store::Options store_options(const Broker::Options& options) {
  Store::Options made{options.state_dir, boot_id(options.proc)};
  if (options.config.durability == "power") made.durability = Durability::power;
  return made;
}

std::string groups_record(const Broker::Options& options) {
  const bool is_kept = !options.state_dir.empty() && options.config.cgroups;
  return is_kept ? options.state_dir + "/leases.groups" : "";
}

}  // namespace

// The lock, the threads and the effects outside. One lock is around the core; everything with
// outside effects happens after it is released.
struct Broker::Impl {
  explicit Impl(Options o);
  ~Impl();

  Moment moment() const { return {options.now(), options.wall()}; }

  LeaseResponse look_up(LeaseId id) const;
  template <class Rows>
  auto read(Rows rows) const;
  template <class How>  // a release or revocation
  void end(const Token& token, How how);
  void holder_died(std::int64_t pid, std::uint64_t start_time);
  void check_holders();
  void forget_old(const Moment& at) REQUIRES(mutex);
  void tick();
  void timer(std::stop_token stop);

  void after();  // outside effects of the changes: groups, signals, events
  void run_groups();
  void check_groups();
  void collect_limits();
  void limited(const std::vector<LeaseId>& leases);
  void deliver_events();
  void deliver_loop(std::stop_token stop);

  const Options options;
  Store store;  // writes are under the lock
  std::atomic<std::uint64_t> decisions{0};
  std::unique_ptr<HolderWatch> watch;  // calls back; null without threads

  mutable Mutex mutex;
  BrokerCore core GUARDED_BY(mutex);
  Instant forget_at GUARDED_BY(mutex){};

  Mutex groups_mutex;  // taken before `mutex` where both are
  LimitSetter groups GUARDED_BY(groups_mutex);

  std::jthread delivery_thread;
  std::jthread thread;  // last: uses everything above
};

Broker::Impl::Impl(Options o)
    : options(std::move(o)),
      store(store_options(options)),
      watch(options.threads
                ? std::make_unique<HolderWatch>(
                      options.proc,
                      [this](std::int64_t pid, std::uint64_t start) { holder_died(pid, start); })
                : nullptr),
      core(options, store, watch.get(), decisions),
      groups(options.cgroup, options.proc, groups_record(options), options.program) {
  const Lock lock(mutex);
  core.restore(moment());
  if (options.config.cgroups) {
    std::vector<LeaseId> live;
    for (const auto* lease : core.ledger().live()) live.push_back(lease->id);
    for (const auto id : groups.sweep(live)) core.enforcer().found_group(id);
  }
  if (!options.threads) return;
  thread = std::jthread([this](std::stop_token stop) { timer(stop); });
  delivery_thread = std::jthread([this](std::stop_token stop) { deliver_loop(stop); });
}

// The callers of everything else first.
Broker::Impl::~Impl() {
  thread = {};
  watch.reset();
  delivery_thread = {};
  if (!store.is_damaged()) return;
  const Lock lock(mutex);
  core.write_anew(moment());
}

Broker::Broker(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() { on_event(nullptr); }

// ---- requests of callers

LeaseRequest Broker::read(std::string_view body) const {
  BrokerConfig limits;
  {
    const Lock lock(impl_->mutex);
    limits.default_ttl_s = impl_->core.config().default_ttl_s;
    limits.max_ttl_s = impl_->core.config().max_ttl_s;
  }
  return lease_request_from_json(body, limits);
}

LeaseResponse Broker::request(const LeaseRequest& original) {
  const auto start = Steady::now();
  const auto secret = random_secret();
  auto request = original;
  request.holder = identified(request.holder, impl_->options.proc);
  LeaseResponse response;
  {
    const Lock lock(impl_->mutex);
    impl_->core.journal().require();
    response = impl_->core.request(std::move(request), secret, start, impl_->moment());
    response.for_holder = true;
  }
  impl_->after();
  if (response.verdict == Verdict::granted && impl_->options.config.cgroups) {
    const Lock lock(impl_->mutex);
    const auto* lease = impl_->core.ledger().find(response.lease.id);
    if (lease != nullptr) response.lease.enforcement = lease->enforcement;
  }
  return response;
}

// What `rows()` reads from the store, without the lock.
template <class Rows>
auto Broker::Impl::read(Rows rows) const {
  try {
    return rows();
  } catch (const Error&) {
    const Lock lock(mutex);
    core.journal().require_files();
    throw;
  }
}

LeaseResponse Broker::Impl::look_up(LeaseId id) const {
  const auto at = moment();
  {
    const Lock lock(mutex);
    if (auto known = core.look_up(id, at.now)) return std::move(*known);
  }
  const auto ended = read([&] { return store.find(id, at); });
  if (!ended) throw Error(Code::not_found, fmt::format("there is no lease {}", id));
  const Lock lock(mutex);
  return core.describe(*ended, at.now);
}

LeaseResponse Broker::status(LeaseId id) const {
  auto response = impl_->look_up(id);
  const Lock lock(impl_->mutex);
  if (const auto refusal = impl_->core.ledger().refusal(id)) {
    impl_->core.add_refusal(response, *refusal);
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
    impl_->core.add_refusal(response, impl_->core.ledger().refusal(response.lease.request));
  }
  return response;
}

LeaseResponse Broker::renew(const Token& token, std::optional<std::uint64_t> client_limit) {
  const auto came = impl_->options.now();  // who waits for the lock is not late for that
  LeaseResponse response;
  std::optional<LeaseError> refused;
  {
    const Lock lock(impl_->mutex);
    impl_->core.journal().require();
    refused = impl_->core.renew(token, client_limit, came, impl_->moment(), response);
    response.for_holder = true;
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
    const auto outcome = how(core.ledger(), at.now, changes);
    core.take(changes, at);  // where it cannot be stored now, it is as soon as it can
    refused = core.error_for(outcome, token, at);
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

void Broker::report(const Token& token, const UsageReport& usage) {
  const Lock lock(impl_->mutex);
  impl_->core.report(token, usage, impl_->moment());
}

void Broker::connection_closed(std::uint64_t connection) noexcept {
  if (connection == 0) return;
  try {
    {
      const Lock lock(impl_->mutex);
      const auto at = impl_->moment();
      impl_->core.take(impl_->core.ledger().connection_closed(connection, at.now), at);
    }
    impl_->after();
  } catch (const std::exception& e) {
    log::error("leases: closing connection {}: {}", connection, e.what());
  }
}

bool Broker::is_bound(std::uint64_t connection) const {
  const Lock lock(impl_->mutex);
  return impl_->core.ledger().is_bound(connection);
}

// ---- what is shown

Json Broker::leases_json(const LeasePage& page) const {
  LeaseList list;
  {
    const Lock lock(impl_->mutex);
    list = impl_->core.list(page, impl_->moment());
  }
  return to_json(list);
}

std::vector<watch::OwnerMemory> Broker::memory_in_use() const {
  const Lock lock(impl_->mutex);
  return impl_->core.memory_in_use();
}

std::map<std::string, std::uint64_t> Broker::leased() const {
  const Lock lock(impl_->mutex);
  return impl_->core.ledger().leased();
}

Json Broker::timeline_json(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit,
                           LeaseId before) const {
  require(from_ms <= to_ms, "the timeline ends before it begins: from is after to");
  const auto at = impl_->moment();
  const auto past =
      impl_->read([&] { return impl_->store.between(from_ms, to_ms, limit, at, before); });
  return sluice::broker::timeline_json(past, from_ms, to_ms, limit, at);
}

Broker::StoreState Broker::store_state() const {
  auto damage = impl_->store.damage();
  const Lock lock(impl_->mutex);
  return {std::move(damage), impl_->core.journal().trouble()};
}

Broker::Stats Broker::stats() const {
  const Lock lock(impl_->mutex);
  return impl_->core.stats();
}

// ---- what happens by itself

void Broker::observe(const watch::Snapshot& snapshot) {
  std::set<ProcessId> holders;
  device::GpuConfig gpu;
  std::string mps_dir;
  {
    const Lock lock(impl_->mutex);
    holders = impl_->core.holders().all();
    gpu = impl_->core.gpu(), mps_dir = impl_->core.config().mps_dir;
  }
  BrokerCore::Sample sample;
  sample.card_snapshots = card_snapshots_of(snapshot, gpu, holders, impl_->options.proc);
  sample.mps_daemon = mps_daemon_runs(mps_dir, impl_->options.proc);
  for (const auto& card_snapshot : sample.card_snapshots)
    sample.cards.push_back(card_snapshot.card);
  {
    const Lock lock(impl_->mutex);
    if (!impl_->core.observe(std::move(sample), snapshot, impl_->moment())) return;
  }
  impl_->after();
  if (impl_->options.config.cgroups) impl_->check_groups();
}

void Broker::Impl::holder_died(std::int64_t pid, std::uint64_t start_time) {
  {
    const Lock lock(mutex);
    const auto at = moment();
    core.take(core.ledger().holder_died(pid, start_time, at.now), at);
  }
  after();
}

void Broker::Impl::check_holders() {
  std::set<ProcessId> all;
  {
    const Lock lock(mutex);
    all = core.holders().all();
  }
  for (const auto& [pid, start_time] : all)
    if (!is_alive(pid, start_time, options.proc)) holder_died(pid, start_time);
}

void Broker::Impl::forget_old(const Moment& at) {
  if (at.now < forget_at) return;
  forget_at = at.now + kForgetEvery;
  try {
    store.forget_old(at);
  } catch (const Error& e) {
    log::warn("leases: old ones cannot be forgotten: {}", e.what());
  }
}

void Broker::Impl::tick() {
  if (!watch) check_holders();
  if (options.config.cgroups) collect_limits();
  const auto at = moment();  // before the lock: those who wait for it may have renewals
  {
    const Lock lock(mutex);
    core.take(core.ledger().tick(at.now), at);
    forget_old(at);
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
    const auto until = std::min(options.now() + kMaxSleep, core.ledger().next_tick());
    core.alarm().wait(until, options.now, mutex, stop);
  }
}

void Broker::reload(const BrokerConfig& config, const device::GpuConfig& gpu) {
  const Lock lock(impl_->mutex);
  impl_->core.reload(config, gpu);
}

// ---- effects outside, without the lock

void Broker::Impl::after() {
  std::vector<Holder> ends;
  bool has_groups = false;
  {
    const Lock lock(mutex);
    ends = core.take_to_end();
    has_groups = core.enforcer().has_work();
  }
  for (const auto& holder : ends)
    if (terminate(holder, options.proc))
      log::warn("leases: process {} did not yield and was asked to end (SIGTERM)", holder.pid);
  if (has_groups) run_groups();
  if (!options.threads) deliver_events();
}

void Broker::Impl::limited(const std::vector<LeaseId>& leases) {
  if (leases.empty()) return;
  const Lock lock(mutex);
  for (const auto id : leases) core.enforcer().limited(id, options.now());
  core.save(moment());
}

void Broker::Impl::run_groups() {
  const Lock one_at_a_time(groups_mutex);
  LimitWork work;
  {
    const Lock lock(mutex);
    work = core.enforcer().take_work();
  }
  limited(groups.carry_out(work, options.now()));
}

void Broker::Impl::collect_limits() {
  const Lock one_at_a_time(groups_mutex);
  limited(groups.collect(options.now()));
}

// With each sample: a process may have been moved away, and a limit lifted.
void Broker::Impl::check_groups() {
  const Lock one_at_a_time(groups_mutex);
  std::vector<LimitJob> jobs;
  {
    const Lock lock(mutex);
    jobs = core.enforcer().standing();
  }
  if (jobs.empty()) return;
  const auto checked = groups.check(jobs);
  const Lock lock(mutex);
  for (const auto& [id, stands] : checked) core.enforcer().checked(id, stands, options.now());
  core.save(moment());
}

// Runs in its own thread: a response must not wait for the delivery of other events.
void Broker::Impl::deliver_loop(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      const Lock lock(mutex);
      core.outbox().wait(mutex, stop);
    }
    deliver_events();
  }
}

void Broker::Impl::deliver_events() {
  {
    const Lock lock(mutex);
    if (!core.outbox().begin()) return;
  }
  EventOutbox::Batch batch;
  while (true) {
    {
      const Lock lock(mutex);
      if (!core.outbox().take(batch)) return;
    }
    batch.deliver();
  }
}

void Broker::on_event(std::function<void(const BrokerEvent&)> listener) {
  const Lock lock(impl_->mutex);
  impl_->core.outbox().listen(std::move(listener), impl_->mutex);
}

}  // namespace sluice::broker
