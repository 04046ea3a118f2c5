#include "serve/http/peer_load.h"

#include <arpa/inet.h>

#include <algorithm>

namespace sluice::serve::http {

std::string load_name(const Peer& peer) {
  if (peer.uid >= 0) return "uid:" + std::to_string(peer.uid);
  in6_addr address{};
  if (::inet_pton(AF_INET6, peer.address.c_str(), &address) != 1) return peer.address;
  std::fill(address.s6_addr + 8, address.s6_addr + 16, std::uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  return std::string(::inet_ntop(AF_INET6, &address, text, sizeof text)) + "/64";
}

PeerLoad::One::One(std::string name_in, MemoryBudget& whole)
    : name(std::move(name_in)), memory(whole.limit() / 2, &whole) {}

std::shared_ptr<PeerLoad::One> PeerLoad::find(const std::string& name) {
  const Lock lock(mutex_);
  auto& known = known_[name];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<One>(name, memory_);
  known = made;
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& one) { return one.second.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * known_.size());
  }
  return made;
}

}  // namespace sluice::serve::http
