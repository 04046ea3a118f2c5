#include "serve/http/peer_load.h"

#include <algorithm>

namespace sluice::serve::http {

PeerLoad::Entry::Entry(std::string name_in, MemoryBudget& total)
    : name(std::move(name_in)), memory(total.limit() / 2, &total) {}

std::shared_ptr<PeerLoad::Entry> PeerLoad::find(const std::string& name) {
  const Lock lock(mutex_);
  auto& known = known_[name];
  if (auto there = known.lock()) return there;
  auto made = std::make_shared<Entry>(name, memory_);
  known = made;
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& one) { return one.second.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * known_.size());
  }
  return made;
}

}  // namespace sluice::serve::http
