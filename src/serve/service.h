// The operations of the server as functions, without a transport: http/ only parses and prints;
// lease routes call the broker directly. Thread-safe; no call waits for a driver.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "broker/broker.h"
#include "serve/audit.h"
#include "serve/events.h"
#include "serve/exposition.h"
#include "serve/market_service.h"
#include "serve/traffic.h"
#include "serve/views.h"
#include "watch/monitor/monitor.h"

namespace sluice::serve {

class Service {
 public:
  // All must outlive it. `memory`: what requests, their work and their answers hold, for
  // metrics.
  Service(watch::Monitor& monitor, broker::Broker& broker, const Traffic& traffic,
          const MemoryBudget& memory, About about, MarketOptions market = {});
  ~Service();

  // Each returns one line of JSON.
  std::string health() const;
  bool ready() const;
  std::string gpu_health() const;
  std::string gpu_memory() const;
  std::string performance() const;
  std::string state() const;
  std::string devices() const;

  std::string metrics(const ExpositionOptions& options) const;  // Prometheus text

  // These read from the disk. They throw as the functions of Monitor do.
  std::string history(const watch::HistoryQuery& query) const;
  std::string trends() const;
  std::string alerts() const;
  void silence(const std::string& rule, const std::string& device, double for_s);
  void unsilence(const std::string& rule, const std::string& device);

  // From now on, writes what is done to the property of others to `log`, which must outlive this.
  // Without a log nothing is written.
  void audit_to(AuditLog& log) noexcept { audit_ = &log; }
  void audit(const AuditLog::Entry& entry);

  // Leases need nothing from here but their events in the stream.
  broker::Broker& broker() noexcept { return broker_; }

  // Calculations; the queue says what they cost.
  MarketService& market() noexcept { return *market_; }

  // A listener to events and, every `interval`, to the state of the machine.
  // `last_event_id` as the client sent it, empty for none; `lease` (its id) to hear of that
  // one alone; `client`: who listens.
  EventCursor listen(std::string_view last_event_id, std::optional<Seconds> interval,
                     const std::string& lease = {}, const std::string& client = {}) const;

  // `wake` is called, on the monitor's thread, when listeners have something new
  // that should not wait. Null stops the calls; none is under way afterwards.
  void on_update(std::function<void()> wake);

  // Once a second: tells the monitor how the server itself does.
  void report_traffic();

 private:
  void on_snapshot(const watch::Snapshot& snapshot);
  void audit_preemption(const broker::BrokerEvent& event);
  void wake_listeners();
  std::string why_no_gpu() const;
  EventCursor::MachineState machine_state(Instant now) const;
  EventCursor::ClientGroup client_group(const std::string& client) const;
  std::shared_ptr<const watch::Snapshot> snapshot() const;  // throws unavailable before the first

  watch::Monitor& monitor_;
  broker::Broker& broker_;
  const Traffic& traffic_;
  const MemoryBudget& memory_;
  const About about_;
  EventRing ring_;
  std::atomic<AuditLog*> audit_{nullptr};

  // The state as text, shared by all streams: made once per snapshot.
  mutable Mutex machine_state_mutex_;
  mutable EventCursor::MachineState machine_state_ GUARDED_BY(machine_state_mutex_);
  mutable Instant machine_state_at_ GUARDED_BY(machine_state_mutex_){};

  mutable Mutex listeners_mutex_;
  mutable std::map<std::string, std::weak_ptr<const void>> listeners_ GUARDED_BY(listeners_mutex_);

  std::atomic<std::uint64_t> urgency_{1};
  std::string last_signature_;  // monitor's thread only

  Mutex wake_mutex_;
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);

  Traffic::Totals reported_;  // report_traffic's thread only
  Instant reported_at_;
  ErrorShare error_share_;

  std::unique_ptr<MarketService> market_;

  std::shared_ptr<void> subscription_;  // last: its callbacks use the members above
};

}  // namespace sluice::serve
