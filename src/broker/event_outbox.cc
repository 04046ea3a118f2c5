#include "broker/event_outbox.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "broker/lease_response_json.h"
#include "watch/alert.h"

namespace sluice::broker {

namespace {

using What = Change::What;

constexpr std::size_t kMaxPendingEvents = 8192;  // events of one peer

struct EventName {
  std::string_view type;
  std::string_view bytes = "";  // what `bytes` of the change are
};
EventName event_name_of(What what) {
  switch (what) {
    case What::queued: return {"lease_queued"};
    case What::granted: return {"lease_granted"};
    case What::renewed: return {"lease_renewed"};
    case What::yield_requested: return {"lease_yield"};
    case What::yield_withdrawn: return {"lease_yield_withdrawn"};
    case What::yield_overdue: return {"lease_yield_overdue"};
    case What::ended: return {"lease_ended"};
    case What::drained: return {"lease_drained", "retained_gb"};
    case What::over_use: return {"lease_over_use", "used_gb"};
    case What::within_again: return {"lease_within_again", "used_gb"};
    case What::preempted: return {"lease_preempted"};
    case What::terminate: return {"lease_terminate"};
    case What::card_lost: return {"lease_gpu_lost"};
    case What::card_back: return {"lease_gpu_back"};
    case What::sent_to_cpu: return {"lease_on_cpu"};
    case What::capacity: return {"lease_capacity"};
  }
  return {"lease_changed"};
}

}  // namespace

BrokerEvent event_of(const PendingEvent& pending) {
  const auto name = event_name_of(pending.change.what);
  Json json{{"type", name.type}, {"time", watch::iso_time(pending.at.wall)}};
  json.update(lease_json(pending.lease, pending.at));
  if (!pending.change.reason.empty()) json["reason"] = pending.change.reason;
  if (!pending.change.uuid.empty()) json["gpu_uuid"] = pending.change.uuid;
  if (!name.bytes.empty()) json[std::string(name.bytes)] = gb(pending.change.bytes);
  return {std::string(name.type), pending.lease.id,
          json.dump(-1, ' ', false, Json::error_handler_t::replace), pending.lease.request.peer,
          pending.change.is_own};
}

void EventOutbox::push(PendingEvent&& event) {
  if (!listener_) return;
  auto& waiting = by_peer_[event.lease.request.peer];
  if (++waiting == kMaxPendingEvents)
    log::warn("leases: events of {} come faster than they can be delivered; some are dropped",
              event.lease.request.peer);
  if (waiting < kMaxPendingEvents) events_.push_back(std::move(event));
}

void EventOutbox::notify() {
  if (!events_.empty()) has_events_.notify_one();
}

void EventOutbox::wait(Mutex& mutex, std::stop_token stop) {
  has_events_.wait(mutex, stop, [this] { return !events_.empty(); });
}

void EventOutbox::listen(Listener listener, Mutex& mutex) {
  listener_ = std::move(listener);
  if (!listener_) events_.clear(), by_peer_.clear();
  delivered_.wait(mutex, [this] { return !is_delivering_; });
}

bool EventOutbox::begin() {
  if (is_delivering_ || events_.empty()) return false;
  return is_delivering_ = true;
}

bool EventOutbox::take(Batch& batch) {
  batch.events.clear();
  batch.events.swap(events_);
  by_peer_.clear();
  batch.to = listener_;
  if (batch.to && !batch.events.empty()) return true;
  is_delivering_ = false;
  delivered_.notify_all();
  return false;
}

void EventOutbox::Batch::deliver() const {
  for (const auto& one : events) {
    try {
      to(event_of(one));
    } catch (const std::exception& e) {
      log::error("leases: an event could not be delivered: {}", e.what());
    }
  }
}

}  // namespace sluice::broker
