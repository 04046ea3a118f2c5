// Records the call sites of live blocks: the frames of the call, named only when
// they are queried.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "memory/alloc/tracking.h"

namespace sluice::memory {

class TrackedAllocator::Sites {
 public:
  void add(void* pointer, std::size_t bytes);  // of the caller's caller
  void remove(void* pointer);
  std::vector<CallSite> out() const;  // most bytes first

 private:
  using Frames = std::array<void*, 8>;
  struct Block {
    std::size_t bytes;
    Frames frames;
  };
  mutable Mutex mutex_;
  std::unordered_map<void*, Block> blocks_ GUARDED_BY(mutex_);
};

}  // namespace sluice::memory
