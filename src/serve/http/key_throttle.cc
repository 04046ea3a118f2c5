#include "serve/http/key_throttle.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/log.h"

namespace sluice::serve::http {

namespace {

constexpr const char* kTheRest = "others";  // when there are too many to tell apart

}  // namespace

std::string KeyThrottle::name_of(const Peer& peer) {
  if (peer.uid >= 0) return "uid " + std::to_string(peer.uid);
  in6_addr address{};
  if (::inet_pton(AF_INET6, peer.address.c_str(), &address) != 1) return peer.address;
  std::fill(std::begin(address.s6_addr) + 8, std::end(address.s6_addr), std::uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  ::inet_ntop(AF_INET6, &address, text, sizeof text);
  return std::string(text) + "/64";
}

double KeyThrottle::left_of(const std::string& name, Instant now) {
  const auto found = peers_.find(name);
  if (found == peers_.end()) return kAtOnce;
  const auto& bucket = found->second;
  return std::min(kAtOnce, bucket.left + seconds_between(bucket.at, now) * kPerSecond);
}

bool KeyThrottle::may_try(const Peer& peer, Instant now) {
  const auto name = name_of(peer);
  const Lock lock(mutex_);
  const bool is_known = peers_.contains(name) || peers_.size() < kMostPeers;
  return left_of(is_known ? name : kTheRest, now) >= 1;
}

void KeyThrottle::forget(Instant now) {
  for (auto at = peers_.begin(); at != peers_.end();)
    at = left_of(at->first, now) >= kAtOnce ? peers_.erase(at) : std::next(at);
}

void KeyThrottle::failed(const Peer& peer, Instant now) {
  auto name = name_of(peer);
  const Lock lock(mutex_);
  if (peers_.size() >= kMostPeers && !peers_.contains(name)) {
    forget(now);
    if (peers_.size() >= kMostPeers) name = kTheRest;
  }
  const double left = left_of(name, now);
  peers_[name] = {std::max(left - 1, 0.0), now};
  has_peers_ = true;
  if (left >= kAtOnce)
    log::warn("http: {} sent a wrong key", name);
  else if (left < 2 && left >= 1)
    log::warn("http: {} sent {:.0f} wrong keys; it may try one every {:.0f} s from now on", name,
              kAtOnce, 1 / kPerSecond);
}

}  // namespace sluice::serve::http
