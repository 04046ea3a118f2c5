#include "serve/service.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "serve/compute_exposition.h"
#include "serve/lease_exposition.h"
#include "serve/pool_view.h"

namespace sluice::serve {

namespace {

constexpr std::size_t kEventsKept = 1024;
constexpr auto kMachineStateAge =
    std::chrono::milliseconds(100);  // the ages in it are wrong by this

// The state that a listener must get at once: health of each GPU, alerts, the sampler.
std::string signature_of(const watch::Snapshot& s) {
  std::string text = s.sampler.state;
  for (const auto& g : s.gpus) text.append(g.gpu.uuid).append(device::to_string(g.health.state));
  for (const auto& a : s.alerts) text.append(a.id).append(a.silenced_until ? "-" : "+");
  return text;
}

std::string with_round_numbers(const std::string& text) {
  auto json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? text : to_text(std::move(json));
}

}  // namespace

Service::Service(watch::Monitor& monitor, broker::Broker& broker, const Traffic& traffic,
                 const MemoryBudget& memory, About about, MarketOptions market)
    : monitor_(monitor),
      broker_(broker),
      traffic_(traffic),
      memory_(memory),
      about_(std::move(about)),
      ring_(unix_ms(std::chrono::system_clock::now()), kEventsKept),
      reported_at_(Steady::now()),
      market_(std::make_unique<MarketService>(
          std::move(market), [this] { return why_no_gpu(); }, [this] { wake_listeners(); })),
      subscription_(monitor.subscribe(
          [this](const std::shared_ptr<const watch::Snapshot>& s) { on_snapshot(*s); },
          [this](const watch::Event& e) {
            ring_.add(e.type, with_round_numbers(e.json));
            wake_listeners();
          })) {
  broker_.on_event([this](const broker::BrokerEvent& e) {
    audit_preemption(e);
    ring_.add(e.type, e.json, "lease " + std::to_string(e.lease), e.peer);
    wake_listeners();
  });
}

Service::~Service() {
  broker_.on_event(nullptr);
  subscription_.reset();
  market_.reset();
}

void Service::audit(const AuditLog::Entry& entry) {
  if (auto* log = audit_.load()) log->add(entry);
}

// The event's reason names the requester. Changes of a user to its own leases are ordinary use and
// not audited: their number has no bound, and they would displace the lines of others.
void Service::audit_preemption(const broker::BrokerEvent& e) {
  const bool ends_process = e.type == "lease_terminate";
  if (e.is_own || (!ends_process && e.type != "lease_preempted")) return;
  audit({.who = "broker",
         .what = (ends_process ? "terminate the holder of lease " : "revoke lease ") +
                 std::to_string(e.lease),
         .detail = e.json,
         .result = ends_process ? "asked to end" : "done"});
}

void Service::on_snapshot(const watch::Snapshot& snapshot) {
  broker_.observe(snapshot);
  monitor_.follow(broker_.leased());
  auto owners = broker_.memory_in_use();
  for (auto& pool : pool_owners(market_->stats().pools, snapshot.at))
    owners.push_back(std::move(pool));
  monitor_.report_owners(std::move(owners));
  auto store = broker_.store_state();
  monitor_.report_lease_store({std::move(store.damage), std::move(store.trouble)});
  auto signature = signature_of(snapshot);
  if (signature == last_signature_) return;
  last_signature_ = std::move(signature);
  ++urgency_;
  wake_listeners();
}

void Service::wake_listeners() {
  const Lock lock(wake_mutex_);
  if (wake_) wake_();
}

// Looks at the first NVIDIA GPU, which is the one that calculates.
std::string Service::why_no_gpu() const {
  const auto latest = monitor_.snapshot();
  if (latest == nullptr) return {};
  for (const auto& one : latest->gpus) {
    if (one.gpu.vendor != device::Vendor::nvidia) continue;
    const bool well = one.health.state == device::HealthState::healthy ||
                      one.health.state == device::HealthState::degraded;
    return well ? std::string() : "the GPU is " + std::string(device::to_string(one.health.state));
  }
  return "no GPU was found";
}

void Service::on_update(std::function<void()> wake) {
  const Lock lock(wake_mutex_);
  wake_ = std::move(wake);
}

std::shared_ptr<const watch::Snapshot> Service::snapshot() const {
  auto latest = monitor_.snapshot();
  if (latest == nullptr)
    throw Error(Code::unavailable, "the machine has not been looked at yet; ask again in a second");
  return latest;
}

std::string Service::health() const {
  return to_text(health_view(*snapshot(), about_, Steady::now()));
}

bool Service::ready() const {
  const auto latest = monitor_.snapshot();
  return latest != nullptr && is_ready(*latest, Steady::now());
}

std::string Service::gpu_health() const {
  return to_text(gpu_health_view(*snapshot(), Steady::now()));
}

std::string Service::gpu_memory() const {
  auto json = gpu_memory_view(*snapshot(), Steady::now());
  json["pools"] = pool_view(market_->pools(), market_->stats().pools);
  return to_text(std::move(json));
}

std::string Service::performance() const {
  return to_text(performance_view(*snapshot(), traffic_.totals(), Steady::now()));
}

std::string Service::state() const {
  const auto latest = snapshot();
  auto json = watch::to_json(*latest, Steady::now());
  json["version"] = about_.version;
  return to_text(std::move(json));
}

std::string Service::devices() const { return to_text(devices_view(*snapshot())); }

std::string Service::metrics(const ExpositionOptions& options) const {
  return exposition(*snapshot(), traffic_.totals(), about_, options, Steady::now()) +
         lease_exposition(broker_.stats()) + compute_exposition(market_->stats(), memory_);
}

std::string Service::history(const watch::HistoryQuery& query) const {
  return to_text(monitor_.history(query));
}

std::string Service::trends() const { return to_text(monitor_.trends()); }

std::string Service::alerts() const { return to_text(monitor_.alerts_json()); }

void Service::silence(const std::string& rule, const std::string& device, double for_s) {
  monitor_.silence(rule, device, for_s);
}

void Service::unsilence(const std::string& rule, const std::string& device) {
  monitor_.unsilence(rule, device);
}

EventCursor::MachineState Service::machine_state(Instant now) const {
  const Lock lock(machine_state_mutex_);
  const auto latest = monitor_.snapshot();
  if (latest == nullptr) return {};
  if (machine_state_.text == nullptr || machine_state_.sequence != latest->sequence ||
      now - machine_state_at_ > kMachineStateAge) {
    machine_state_ = {latest->sequence, urgency_.load(),
                      std::make_shared<const std::string>(state())};
    machine_state_at_ = now;
  }
  return machine_state_;
}

EventCursor Service::listen(std::string_view last_event_id, std::optional<Seconds> interval,
                            const std::string& lease, const std::string& client) const {
  const auto after = ring_.resume(last_event_id).value_or(ring_.newest());
  return {ring_,
          after,
          interval,
          [this](Instant now) { return machine_state(now); },
          lease.empty() ? "" : "lease " + lease,
          client_group(client + (interval        ? " states"
                                 : lease.empty() ? " events"
                                                 : " lease"))};
}

// The same for all listeners of one kind and client; forgotten when the last has gone.
EventCursor::ClientGroup Service::client_group(const std::string& client) const {
  const Lock lock(listeners_mutex_);
  std::erase_if(listeners_, [](const auto& one) { return one.second.expired(); });
  auto& known = listeners_[client];
  auto client_group = known.lock();
  if (!client_group) known = client_group = std::make_shared<char>();
  return client_group;
}

void Service::report_traffic() {
  const auto now = Steady::now();
  auto totals = traffic_.totals();
  const auto rates = rates_between(reported_, totals, seconds_between(reported_at_, now));
  const double error_percent = error_share_.add(totals, now);
  reported_ = std::move(totals);
  reported_at_ = now;
  using device::Metric;
  monitor_.report_server(Metric::request_rate, rates.rate);
  monitor_.report_server(Metric::request_error_rate, error_percent);
  if (rates.p50_ms) monitor_.report_server(Metric::request_p50, *rates.p50_ms);
  if (rates.p99_ms) monitor_.report_server(Metric::request_p99, *rates.p99_ms);
}

}  // namespace sluice::serve
