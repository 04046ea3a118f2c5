// Connections and memory that each peer (Peer::origin) uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/memory_budget.h"
#include "base/mutex.h"

namespace sluice::serve::http {

// Thread-safe. `memory` must outlive what find() returns.
class PeerLoad {
 public:
  explicit PeerLoad(MemoryBudget& memory) : memory_(memory) {}

  struct Entry {
    Entry(std::string name, MemoryBudget& total);
    const std::string name;
    std::atomic<std::int64_t> connections{0};
    MemoryBudget memory;  // at most half of the total
  };
  // The same for the same name as long as somebody holds it.
  std::shared_ptr<Entry> find(const std::string& name);

 private:
  MemoryBudget& memory_;
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<Entry>> known_ GUARDED_BY(mutex_);
  std::size_t sweep_at_ GUARDED_BY(mutex_) = 64;  // so many known: those who left are dropped
};

}  // namespace sluice::serve::http
