// A range of addresses of which parts have memory behind them. Growing never moves
// anything: addresses are reserved once, far more than there is memory, and memory
// is put behind them granule by granule. What lies behind a free hole can be taken
// out and put elsewhere while every block in use keeps its address, and that is how
// a fragmented pool is defragmented.
//
// Not thread-safe; a Pool uses one arena alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace sluice::memory {

class Arena {
 public:
  virtual ~Arena() = default;

  virtual std::byte* base() const noexcept = 0;  // kAlignment-aligned
  virtual std::size_t addresses()
      const noexcept = 0;                            // bytes reserved; a pool uses at most 1023 GiB
  virtual std::size_t granule() const noexcept = 0;  // of commit and decommit; a power of two
  // Bytes that may still be committed, as far as the arena knows.
  virtual std::size_t available() const noexcept { return static_cast<std::size_t>(-1); }

  // Both take whole granules. Puts memory behind [offset, offset + bytes), none of
  // which has any; throws exhausted, and then nothing has changed.
  virtual void commit(std::size_t offset, std::size_t bytes) = 0;
  // Takes it away again; the contents are lost. All of the range must have memory.
  virtual void decommit(std::size_t offset, std::size_t bytes) noexcept = 0;
};

// Host memory by mmap. `addresses` is rounded up to whole granules, and a granule is at
// least a page. Throws exhausted when the addresses cannot be had. Touching addresses
// without memory ends the program.
class HostArena final : public Arena {
 public:
  explicit HostArena(std::size_t addresses, std::size_t granule = 2 << 20);
  ~HostArena() override;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  std::byte* base() const noexcept override { return base_; }
  std::size_t addresses() const noexcept override { return addresses_; }
  std::size_t granule() const noexcept override { return granule_; }
  void commit(std::size_t offset, std::size_t bytes) override;
  void decommit(std::size_t offset, std::size_t bytes) noexcept override;

 private:
  std::size_t addresses_, granule_;
  std::byte* base_;
};

// Addresses and no memory at all: for replaying a trace of an 80 GB card on a laptop.
// Nothing may be read or written there. `memory` bounds what may be committed at once.
class ImaginaryArena final : public Arena {
 public:
  explicit ImaginaryArena(std::size_t addresses, std::size_t memory = static_cast<std::size_t>(-1),
                          std::size_t granule = 2 << 20);

  std::byte* base() const noexcept override;
  std::size_t addresses() const noexcept override { return addresses_; }
  std::size_t granule() const noexcept override { return granule_; }
  std::size_t available() const noexcept override { return memory_ - committed_; }
  void commit(std::size_t offset, std::size_t bytes) override;
  void decommit(std::size_t offset, std::size_t bytes) noexcept override;

 private:
  std::size_t addresses_, memory_, granule_, committed_ = 0;
};

// Arenas that together commit at most so much: the pools of one lease. Safe to share.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  std::size_t left() const noexcept { return left_.load(std::memory_order_relaxed); }
  bool take(std::size_t bytes) noexcept;  // all or nothing
  void give(std::size_t bytes) noexcept { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> left_;
};
class BudgetArena final : public Arena {
 public:
  BudgetArena(std::unique_ptr<Arena> arena, std::shared_ptr<Budget> budget)
      : arena_(std::move(arena)), budget_(std::move(budget)) {}

  std::byte* base() const noexcept override { return arena_->base(); }
  std::size_t addresses() const noexcept override { return arena_->addresses(); }
  std::size_t granule() const noexcept override { return arena_->granule(); }
  std::size_t available() const noexcept override;
  void commit(std::size_t offset, std::size_t bytes) override;
  void decommit(std::size_t offset, std::size_t bytes) noexcept override;

 private:
  const std::unique_ptr<Arena> arena_;
  const std::shared_ptr<Budget> budget_;
};

}  // namespace sluice::memory
