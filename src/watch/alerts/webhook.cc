#include "watch/alerts/webhook.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/http/url.h"
#include "base/log.h"
#include "base/mutex.h"
#include "watch/alerts/http_post.h"

namespace sluice::watch {

namespace {

constexpr double kLastChance_s = 1;  // to send what waits when we stop
constexpr double kPatience_s = 0.5;  // for the thread to notice an interrupt

bool worth_another_try(const PostAnswer& answer) {
  return answer.status == 0 || answer.status >= 500 || answer.status == 408 ||
         answer.status == 425 || answer.status == 429;
}

std::string reason(const PostAnswer& answer) {
  return answer.status == 0 ? answer.error : fmt::format("answered {}", answer.status);
}

}  // namespace

struct Webhook::Impl {
  explicit Impl(WebhookOptions o) : options(std::move(o)), url(parse_url(options.url)) {
    stats.address = url.origin();
  }

  void loop();
  bool next(std::string& body);
  void deliver(const std::string& body);
  bool pause(double seconds);
  void finish(bool sent, const std::string& error);

  const WebhookOptions options;
  const Url url;
  Interrupt interrupt;

  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::string> queue GUARDED_BY(mutex);
  bool busy GUARDED_BY(mutex) = false, stopping GUARDED_BY(mutex) = false,
            ended GUARDED_BY(mutex) = false;
  WebhookStats stats GUARDED_BY(mutex);
  std::thread thread;
};

void Webhook::Impl::loop() {
  for (std::string body; next(body);) deliver(body);
  const Lock lock(mutex);
  ended = true;
  changed.notify_all();
}

// False when there will be no more.
bool Webhook::Impl::next(std::string& body) {
  const Lock lock(mutex);
  changed.wait(mutex, [this]() REQUIRES(mutex) { return stopping || !queue.empty(); });
  if (queue.empty() || interrupt.requested()) return false;
  body = std::move(queue.front());
  queue.pop_front();
  busy = true;
  return true;
}

void Webhook::Impl::deliver(const std::string& body) {
  double backoff = options.first_backoff_s;
  for (int attempt = 1;; ++attempt) {
    const auto answer = http_post(url, body, options.timeout_s, options.ca_file, interrupt);
    if (answer.status >= 200 && answer.status < 300) return finish(true, "");
    const bool last = attempt >= options.attempts || !worth_another_try(answer);
    if (attempt == 1 && !last)
      log::warn("webhook: {}: {}; trying again", url.origin(), reason(answer));
    const double rest =
        std::min(options.longest_backoff_s, std::max(backoff, answer.retry_after_s.value_or(0)));
    if (last || !pause(rest)) return finish(false, reason(answer));
    backoff *= 2;
  }
}

// False when stopped meanwhile.
bool Webhook::Impl::pause(double seconds) {
  const Lock lock(mutex);
  ++stats.retries;
  return !changed.wait_for(mutex, Seconds(seconds), [this]() REQUIRES(mutex) { return stopping; });
}

void Webhook::Impl::finish(bool sent, const std::string& error) {
  if (!sent) log::error("webhook: {}: an alert was not delivered: {}", url.origin(), error);
  const Lock lock(mutex);
  ++(sent ? stats.sent : stats.failed);
  stats.last_error = error;
  busy = false;
  changed.notify_all();
}

Webhook::Webhook(WebhookOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {
  impl_->thread = std::thread([impl = impl_] { impl->loop(); });
}

// A name lookup cannot be interrupted and may take half a minute; rather than hold
// up the end of the program we leave the thread to it. It owns all it touches.
Webhook::~Webhook() {
  bool ended = false;
  {
    const Lock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
    const auto done = [&]() REQUIRES(impl_->mutex) { return impl_->ended; };
    ended = impl_->changed.wait_for(impl_->mutex, Seconds(kLastChance_s), done);
    if (!ended) {
      impl_->interrupt.now();
      ended = impl_->changed.wait_for(impl_->mutex, Seconds(kPatience_s), done);
    }
    if (const auto lost = impl_->queue.size(); lost > 0)
      log::error("webhook: {}: {} alerts were not delivered", impl_->url.origin(), lost);
  }
  ended ? impl_->thread.join() : impl_->thread.detach();
}

void Webhook::post(std::string body) {
  const Lock lock(impl_->mutex);
  if (impl_->queue.size() >= impl_->options.queue) {
    impl_->queue.pop_front();
    if (impl_->stats.dropped++ == 0)
      log::warn("webhook: {}: more alerts than it takes; the oldest are dropped",
                impl_->url.origin());
  }
  impl_->queue.push_back(std::move(body));
  impl_->changed.notify_all();
}

WebhookStats Webhook::stats() const {
  const Lock lock(impl_->mutex);
  WebhookStats stats = impl_->stats;
  stats.waiting = impl_->queue.size() + (impl_->busy ? 1 : 0);
  return stats;
}

bool Webhook::wait_idle(double limit_s) const {
  const Lock lock(impl_->mutex);
  return impl_->changed.wait_for(impl_->mutex, Seconds(limit_s), [&]() REQUIRES(impl_->mutex) {
    return impl_->queue.empty() && !impl_->busy;
  });
}

Json to_json(const WebhookStats& s) {
  return Json{{"address", s.address},      {"sent", s.sent},       {"failed", s.failed},
              {"retries", s.retries},      {"dropped", s.dropped}, {"waiting", s.waiting},
              {"last_error", s.last_error}};
}

}  // namespace sluice::watch
