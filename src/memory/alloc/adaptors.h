// Allocators that add one thing to the one below them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/mutex.h"
#include "memory/alloc/allocator.h"

namespace sluice::memory {

// One thread at a time. The only adaptor that makes another safe to share.
class LockedAllocator final : public Allocator {
 public:
  explicit LockedAllocator(Allocator& upstream) : upstream_(upstream) {}
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override;

  // Runs `function` with what is below standing still: for a pool's figures, say.
  template <class Function>
  auto alone(Function&& function) {
    const Lock lock(mutex_);
    return function();
  }

 private:
  Mutex mutex_;
  Allocator& upstream_;  // used under mutex_ only
};

// Lets at most `limit` bytes be out at once; this is how a lease is enforced in our
// own programs. Safe to share when `upstream` is.
class LimitedAllocator final : public Allocator {
 public:
  LimitedAllocator(Allocator& upstream, std::size_t limit) : upstream_(upstream), limit_(limit) {}
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override { return upstream_.trim(); }

  // A lower limit than what is out takes effect as blocks come back.
  void set_limit(std::size_t limit) noexcept { limit_.store(limit); }
  std::size_t limit() const noexcept { return limit_.load(); }
  std::size_t in_use() const noexcept { return in_use_.load(); }

 private:
  Allocator& upstream_;
  std::atomic<std::size_t> limit_;
  std::atomic<std::size_t> in_use_{0};
};

// Counts. Safe to share when `upstream` is.
struct Counts {
  std::uint64_t allocations = 0, deallocations = 0, failures = 0;
  std::size_t bytes = 0, peak_bytes = 0, count = 0;  // out now; the most; blocks out now
  std::uint64_t total_bytes = 0;                     // of all allocations
};
class CountingAllocator final : public Allocator {
 public:
  explicit CountingAllocator(Allocator& upstream) : upstream_(upstream) {}
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override { return upstream_.trim(); }
  Counts counts() const noexcept;

 private:
  Allocator& upstream_;
  std::atomic<std::uint64_t> allocations_{0}, deallocations_{0}, failures_{0}, total_{0};
  std::atomic<std::size_t> bytes_{0}, peak_{0};
};

// When memory is exhausted: trims, asks `on_exhausted` whether to try again, and only
// then lets exhausted through. Safe to share when `upstream` is.
class RetryingAllocator final : public Allocator {
 public:
  // Gets the requested bytes and the number of failures; true tries again.
  using OnExhausted = std::function<bool(std::size_t bytes, int attempt)>;
  RetryingAllocator(Allocator& upstream, OnExhausted on_exhausted);
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override { return upstream_.trim(); }

 private:
  Allocator& upstream_;
  const OnExhausted on_exhausted_;
};

}  // namespace sluice::memory
