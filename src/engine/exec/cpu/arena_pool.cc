#include "engine/exec/cpu/arena_pool.h"

#include <algorithm>

namespace sluice::engine::cpu {

// The smallest that suffices. If all are too small, the largest of them makes room for a new one.
Tensor ArenaPool::take(std::size_t bytes) {
  Tensor too_small;  // freed without the lock
  {
    const Lock lock(mutex_);
    const auto by_size = [](const Tensor& arena) { return arena.bytes(); };
    const auto found = std::ranges::lower_bound(free_, bytes, {}, by_size);
    if (found != free_.end()) {
      Tensor arena = std::move(*found);
      free_.erase(found);
      return arena;
    }
    if (!free_.empty()) {
      too_small = std::move(free_.back());
      free_.pop_back();
    }
  }
  too_small = {};
  return {DType::u8, Shape{static_cast<std::int64_t>(bytes)}};
}

void ArenaPool::give_back(Tensor arena) {
  const Lock lock(mutex_);
  const auto by_size = [](const Tensor& one) { return one.bytes(); };
  if (free_.size() == kMaxFree) return;
  free_.insert(std::ranges::upper_bound(free_, arena.bytes(), {}, by_size), std::move(arena));
}

std::size_t ArenaPool::free_bytes() const {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Tensor& arena : free_) bytes += arena.bytes();
  return bytes;
}

std::size_t ArenaPool::trim() noexcept {
  const Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Tensor& arena : free_) bytes += arena.bytes();
  free_.clear();
  return bytes;
}

}  // namespace sluice::engine::cpu
