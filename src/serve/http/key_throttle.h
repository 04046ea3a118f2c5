// Rate limit against guessing keys: each peer (Peer::origin) may send a few wrong keys, then a few
// a minute. Beyond that its keys are not checked, so even the right one is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "serve/http/peer.h"

namespace sluice::serve::http {

// Thread-safe.
class KeyThrottle {
 public:
  static constexpr double kAtOnce = 10;         // wrong keys
  static constexpr double kPerSecond = 1. / 6;  // after that
  static constexpr std::size_t kMaxPeers = 4096;

  // Returns whether a key of this peer may be checked.
  bool may_try(const Peer& peer, Instant now);
  // Records a wrong key. Logs the first one and the start of throttling, with the same rate limit
  // over all peers.
  void failed(const Peer& peer, Instant now);

  // Returns whether no key failed lately: may_try() would accept all. Takes no lock.
  bool is_quiet() const noexcept { return !has_peers_; }

 private:
  struct Bucket {
    double left = kAtOnce;
    Instant at{};
  };
  static double left_of(const Bucket& bucket, Instant now);
  Bucket& bucket_of(const std::string& name, Instant now) REQUIRES(mutex_);
  void forget(Instant now) REQUIRES(mutex_);
  void log_line(Instant now, const std::string& what) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::string, Bucket> peers_ GUARDED_BY(mutex_);
  Instant forgot_at_ GUARDED_BY(mutex_){};
  Bucket lines_ GUARDED_BY(mutex_);  // of the log
  std::uint64_t suppressed_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> has_peers_{false};
};

}  // namespace sluice::serve::http
