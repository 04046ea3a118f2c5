// Guessing a key: each peer may send a few wrong ones, then a few a minute. Until then its keys
// are not even looked at, so a right one is no use either.
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
  // It was wrong. Told to the program's log the first time and when may_try() says no from now.
  void failed(const Peer& peer, Instant now);

  // Nobody failed lately: may_try() would say yes to all. Takes no lock.
  bool is_quiet() const noexcept { return !has_peers_; }

  // Clients of one user, or of one address where the user is not known, are one. Of IPv6 the
  // network (/64), which is what one client gets.
  static std::string name_of(const Peer& peer);

 private:
  struct Bucket {
    double left = kAtOnce;
    Instant at{};
  };
  double left_of(const std::string& name, Instant now) REQUIRES(mutex_);
  void forget(Instant now) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::string, Bucket> peers_ GUARDED_BY(mutex_);
  std::atomic<bool> has_peers_{false};
};

}  // namespace sluice::serve::http
