// Posts JSON documents to one address, in order, from a thread of its own. post()
// never waits: the queue is bounded and drops its oldest with a count. A failed
// post is tried again, waiting twice as long each time; an answer of 4xx (other
// than 408, 425 and 429) is final. https verifies the certificate and the name
// against the system's store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/json.h"

namespace sluice::watch {

struct WebhookOptions {
  std::string url;
  double timeout_s = 5;  // per attempt: connect, send and answer
  int attempts = 6;
  double first_backoff_s = 1;  // doubled after each failure
  double longest_backoff_s = 60;
  std::size_t queue = 256;
  std::string ca_file;  // PEM; empty for the system's store
};

struct WebhookStats {
  std::string address;  // without path
  std::uint64_t sent = 0, failed = 0, retries = 0, dropped = 0;
  std::size_t waiting = 0;
  std::string last_error;  // empty after a success
};

// Thread-safe.
class Webhook {
 public:
  // Throws invalid_argument for an address parse_url rejects.
  explicit Webhook(WebhookOptions options);
  ~Webhook();  // gives what waits one second, then logs what is lost

  void post(std::string body);
  WebhookStats stats() const;
  bool wait_idle(double limit_s) const;  // true when nothing waits

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with its thread, which may outlive us inside a name lookup
};

Json to_json(const WebhookStats& stats);

}  // namespace sluice::watch
