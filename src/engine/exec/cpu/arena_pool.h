// Arenas that programs take in turn: those of one session, or of all encoders on a device.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tensor/tensor.h"

namespace sluice::engine::cpu {

// Thread-safe. Keeps the arenas that are given back, whatever their sizes: programs for many shapes
// need no more memory than the largest of them, once for each run at the same time.
class ArenaPool {
 public:
  class Loan {
   public:
    // At least `bytes`, uninitialized.
    Loan(ArenaPool& from, std::size_t bytes) : from_(from), arena_(from.take(bytes)) {}
    ~Loan() { from_.give_back(std::move(arena_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(arena_.data()); }

   private:
    ArenaPool& from_;
    Tensor arena_;
  };

  std::size_t trim() noexcept;  // releases what is not taken; bytes
  std::size_t free_bytes() const;

 private:
  Tensor take(std::size_t bytes);
  void give_back(Tensor arena);

  static constexpr std::size_t kMaxFree = 8;

  mutable Mutex mutex_;
  std::vector<Tensor> free_ GUARDED_BY(mutex_);
};

}  // namespace sluice::engine::cpu
