// The interface of all allocators. They stack: each wraps the one it draws from.
//
//   Pool pool("default", arena, {.strategy = StrategyKind::best_fit});
//   LockedAllocator locked(pool);                    // for threads
//   LimitedAllocator leased(locked, lease.bytes);    // refuses past the lease
//   Buffer weights(leased, bytes);
#pragma once

#include <cstddef>
#include <utility>

namespace sluice::memory {

inline constexpr std::size_t kAlignment = 256;  // of every block; what CUDA promises too

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Implementations must pass allocator_conformance.h.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // At least `bytes` bytes, kAlignment-aligned; never null. Zero bytes is a valid
  // request. Throws exhausted when there is no space, and then nothing has changed.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;

  // `pointer` and `bytes` exactly as returned by and given to allocate.
  virtual void deallocate(void* pointer, std::size_t bytes) noexcept = 0;

  // Returns unused memory to where it came from; returns how many
  // bytes. Blocks that are out stay where they are.
  virtual std::size_t trim() noexcept { return 0; }
};

// Owns one allocation. The allocator must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Allocator& from, std::size_t bytes)
      : from_(&from), bytes_(bytes), data_(from.allocate(bytes)) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept
      : from_(other.from_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    from_ = other.from_;
    bytes_ = other.bytes_;
    data_ = std::exchange(other.data_, nullptr);
    return *this;
  }

  void reset() noexcept {
    if (data_ != nullptr) from_->deallocate(std::exchange(data_, nullptr), bytes_);
  }
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Allocator* from_ = nullptr;
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

}  // namespace sluice::memory
