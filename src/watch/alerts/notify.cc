#include "watch/alerts/notify.h"

#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace sluice::watch {

namespace {

bool is_end(const Transition& t) { return t.kind == Transition::Kind::resolved; }

std::string_view type_of(const Transition& t) { return is_end(t) ? "alert_resolved" : "alert"; }

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Texts from drivers and process names are not always UTF-8: invalid bytes are replaced.
std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

log::Level level_of(Severity severity) {
  switch (severity) {
    case Severity::info: return log::Level::info;
    case Severity::warning: return log::Level::warn;
    case Severity::critical: return log::Level::error;
  }
  return log::Level::warn;
}

void write_log(const Transition& t) {
  const Alert& a = t.alert;
  if (is_end(t))
    log::write(log::Level::info,
               fmt::format("alert {} is over: {} ({})", a.rule, a.summary, a.resolved_because));
  else
    log::write(level_of(a.severity),
               fmt::format("alert {}: {}. {} Fix: {}", a.rule, a.summary, a.cause, a.fix));
}

}  // namespace

Event event_of(const Transition& transition, WallTime wall) {
  return {std::string(type_of(transition)), wall, one_line(to_json(transition.alert))};
}

std::string webhook_body(const Transition& t, const std::string& host) {
  const std::string text = fmt::format(
      "[{}] {}: {}", is_end(t) ? "resolved" : to_string(t.alert.severity), host, t.alert.summary);
  return one_line(Json{{"version", 1},
                       {"event", type_of(t)},
                       {"host", host},
                       {"text", text},
                       {"alert", to_json(t.alert)}});
}

Notifier::Notifier(const std::string& webhook_url) : host_(host_name()) {
  set_webhook(webhook_url);
}

void Notifier::deliver(const Transition& transition) {
  if (!transition.deliver) return;
  write_log(transition);
  std::shared_ptr<Webhook> webhook;
  {
    const Lock lock(mutex_);
    webhook = webhook_;
  }
  if (webhook) webhook->post(webhook_body(transition, host_));
}

void Notifier::set_webhook(const std::string& webhook_url) {
  std::shared_ptr<Webhook> made;
  {
    const Lock lock(mutex_);
    if (webhook_url == url_) return;
  }
  try {
    WebhookOptions options;
    options.url = webhook_url;
    if (!webhook_url.empty()) made = std::make_shared<Webhook>(std::move(options));
  } catch (const Error& e) {
    log::error("webhook: {}; alerts go to the log only", e.what());
  }
  const Lock lock(mutex_);
  url_ = webhook_url;
  std::swap(webhook_, made);  // the old one ends after the lock is released
}

Json Notifier::to_json() const {
  const Lock lock(mutex_);
  return Json{{"webhook", webhook_ ? watch::to_json(webhook_->stats()) : Json()}};
}

}  // namespace sluice::watch
