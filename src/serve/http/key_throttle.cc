#include "serve/http/key_throttle.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::serve::http {

namespace {

constexpr auto kForgetEvery = std::chrono::seconds(10);

}  // namespace

double KeyThrottle::left_of(const Bucket& bucket, Instant now) {
  return std::min(kAtOnce, bucket.left + seconds_between(bucket.at, now) * kPerSecond);
}

bool KeyThrottle::may_try(const Peer& peer, Instant now) {
  const auto name = peer.origin();
  const Lock lock(mutex_);
  if (now - forgot_at_ >= kForgetEvery) forget(now);
  const auto found = peers_.find(name);
  return found == peers_.end() || left_of(found->second, now) >= 1;
}

void KeyThrottle::forget(Instant now) {
  forgot_at_ = now;
  std::erase_if(peers_, [&](const auto& one) { return left_of(one.second, now) >= kAtOnce; });
  has_peers_ = !peers_.empty();
}

// An unknown peer is never delayed by others: if there are too many, the one whose failure is
// oldest is removed.
KeyThrottle::Bucket& KeyThrottle::bucket_of(const std::string& name, Instant now) {
  if (peers_.size() >= kMaxPeers && !peers_.contains(name)) {
    forget(now);
    if (peers_.size() >= kMaxPeers)
      peers_.erase(
          std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.at; }));
  }
  has_peers_ = true;
  return peers_.try_emplace(name, Bucket{kAtOnce, now}).first->second;
}

void KeyThrottle::failed(const Peer& peer, Instant now) {
  const auto name = peer.origin();
  const Lock lock(mutex_);
  auto& bucket = bucket_of(name, now);
  const double left = left_of(bucket, now);
  bucket = {std::max(left - 1, 0.0), now};
  if (left >= kAtOnce)
    log_line(now, name + " sent a wrong key");
  else if (left < 2 && left >= 1)
    log_line(now,
             fmt::format("{} sent {:.0f} wrong keys; it may try one every {:.0f} s from now on",
                         name, kAtOnce, 1 / kPerSecond));
}

// Lines of all peers together: there may be any number of those.
void KeyThrottle::log_line(Instant now, const std::string& what) {
  lines_.left = left_of(lines_, now), lines_.at = now;
  if (lines_.left < 1) {
    ++suppressed_;
    return;
  }
  lines_.left -= 1;
  const auto before = std::exchange(suppressed_, 0);
  log::warn("http: {}{}", what, before > 0 ? fmt::format(" ({} such lines left out)", before) : "");
}

}  // namespace sluice::serve::http
