// Guessing a key: each peer (Peer::origin) may send a few wrong ones, then a few a minute. Until
// then its keys are not even looked at, so a right one is no use either.
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
  static constexpr std::size_t kMostPeers = 4096;

  // Whether a key of this peer may be looked at.
  bool may_try(const Peer& peer, Instant now);
  // It was wrong. Told to the program's log the first time and when may_try() says no from now,
  // at the same rate for all peers together.
  void failed(const Peer& peer, Instant now);

  // Nobody failed lately: may_try() would say yes to all. Takes no lock.
  bool is_quiet() const noexcept { return !has_peers_; }

 private:
  struct Bucket {
    double left = kAtOnce;
    Instant at{};
  };
  static double left_of(const Bucket& bucket, Instant now);
  Bucket& bucket_of(const std::string& name, Instant now) REQUIRES(mutex_);
  void forget(Instant now) REQUIRES(mutex_);
  void tell(Instant now, const std::string& what) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::string, Bucket> peers_ GUARDED_BY(mutex_);
  Instant forgot_at_ GUARDED_BY(mutex_){};
  Bucket lines_ GUARDED_BY(mutex_);  // of the log
  std::uint64_t untold_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> has_peers_{false};
};

}  // namespace sluice::serve::http
