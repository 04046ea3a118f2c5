#include "serve/http/peer_load.h"

#include <algorithm>

namespace sluice::serve::http {

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
