#include "memory/alloc/adaptors.h"

#include "base/error.h"
#include "base/units.h"

namespace sluice::memory {

void* LockedAllocator::allocate(std::size_t bytes) {
  const Lock lock(mutex_);
  return upstream_.allocate(bytes);
}

void LockedAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  const Lock lock(mutex_);
  upstream_.deallocate(pointer, bytes);
}

std::size_t LockedAllocator::trim() noexcept {
  const Lock lock(mutex_);
  return upstream_.trim();
}

void* LimitedAllocator::allocate(std::size_t bytes) {
  // The budget is reserved before the memory, so that two threads cannot both take the rest.
  std::size_t in_use = in_use_.load(std::memory_order_relaxed);
  do {
    const std::size_t limit = limit_.load(std::memory_order_relaxed);
    if (bytes > limit || in_use > limit - bytes)
      throw Error(Code::exhausted, human_bytes(bytes) + " more than a limit of " +
                                       human_bytes(limit) + " allows: " + human_bytes(in_use) +
                                       " are in use");
  } while (!in_use_.compare_exchange_weak(in_use, in_use + bytes, std::memory_order_relaxed));
  try {
    return upstream_.allocate(bytes);
  } catch (...) {
    in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
}

void LimitedAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  upstream_.deallocate(pointer, bytes);
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
}

void* CountingAllocator::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  try {
    pointer = upstream_.allocate(bytes);
  } catch (...) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  total_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return pointer;
}

void CountingAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  upstream_.deallocate(pointer, bytes);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  deallocations_.fetch_add(1, std::memory_order_release);
}

Counts CountingAllocator::counts() const noexcept {
  Counts c;
  // Deallocations first: one that happens meanwhile cannot make the difference negative.
  c.deallocations = deallocations_.load(std::memory_order_acquire);
  c.allocations = allocations_.load(std::memory_order_acquire);
  c.failures = failures_.load(std::memory_order_relaxed);
  c.bytes = bytes_.load(std::memory_order_relaxed);
  c.peak_bytes = peak_.load(std::memory_order_relaxed);
  c.count = static_cast<std::size_t>(c.allocations - c.deallocations);
  c.total_bytes = total_.load(std::memory_order_relaxed);
  return c;
}

RetryingAllocator::RetryingAllocator(Allocator& upstream, OnExhausted on_exhausted)
    : upstream_(upstream), on_exhausted_(std::move(on_exhausted)) {}

void* RetryingAllocator::allocate(std::size_t bytes) {
  for (int attempt = 1;; ++attempt) {
    try {
      return upstream_.allocate(bytes);
    } catch (const Error& e) {
      if (e.code() != Code::exhausted) throw;
      const bool again = (attempt == 1 && upstream_.trim() > 0) ||
                         (on_exhausted_ && on_exhausted_(bytes, attempt));
      if (!again) throw;
    }
  }
}

void RetryingAllocator::deallocate(void* pointer, std::size_t bytes) noexcept {
  upstream_.deallocate(pointer, bytes);
}

}  // namespace sluice::memory
