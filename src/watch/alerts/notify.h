// Delivers alerts to the log and a webhook. Server-sent events are the
// monitor's subscribers; event_of gives them their form.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/mutex.h"
#include "watch/alerts/alert_engine.h"
#include "watch/alerts/webhook.h"
#include "watch/event.h"

namespace sluice::watch {

// "alert" or "alert_resolved", with the alert as one line of JSON.
Event event_of(const Transition& transition, WallTime wall);

// The body of the webhook; documented in docs/alerts.md.
std::string webhook_body(const Transition& transition, const std::string& host);

// Thread-safe; deliver() never waits.
class Notifier {
 public:
  // An address that cannot be used is logged and delivers to the log only.
  explicit Notifier(const std::string& webhook_url);

  // Does nothing when transition.deliver is false.
  void deliver(const Transition& transition);

  // Keeps the queue when the address is the same.
  void set_webhook(const std::string& webhook_url);

  Json to_json() const;  // {"webhook": null | {"address", "sent", …}}

 private:
  std::string host_;
  mutable Mutex mutex_;
  std::string url_ GUARDED_BY(mutex_);
  std::shared_ptr<Webhook> webhook_ GUARDED_BY(mutex_);  // shared: posting may overlap a change
};

}  // namespace sluice::watch
