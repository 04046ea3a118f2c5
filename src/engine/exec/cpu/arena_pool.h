// Arenas that the programs of one session take in turn.
#pragma once

#include <cstddef>
#include <vector>

#include "base/mutex.h"
#include "tensor/tensor.h"

namespace sluice::engine::cpu {

// Thread-safe. Keeps the arenas that are given back, whatever their sizes: programs for many shapes
// need no more memory than the largest of them, once for each run at the same time.
class ArenaPool {
 public:
  // At least `bytes`, uninitialized.
  Tensor take(std::size_t bytes);
  void give_back(Tensor arena);
  std::size_t trim() noexcept;  // releases what is not taken; bytes

 private:
  static constexpr std::size_t kMaxFree = 8;

  Mutex mutex_;
  std::vector<Tensor> free_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine::cpu
