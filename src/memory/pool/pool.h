// A named pool: one arena, one strategy, memory put behind addresses as needed and
// taken back from holes when it is short. Not thread-safe: wrap it in
// LockedAllocator to share it (make_pools does).
//
// Growth, trimming and defragmenting are one mechanism. A block is given an address
// first. Where no memory lies behind it yet, memory is committed; past the ceiling,
// granules that lie wholly in holes are taken out and used there instead. So memory
// that is free in pieces is never out of reach, and no block in use moves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/alloc/allocator.h"
#include "memory/alloc/arena.h"
#include "memory/strategy/strategy.h"

namespace sluice::memory {

struct PoolOptions {
  StrategyKind strategy = StrategyKind::best_fit;
  std::size_t initial = 0;                             // committed at once
  std::size_t growth = 16 << 20;                       // committed at least, when more is needed
  std::size_t ceiling = static_cast<std::size_t>(-1);  // never more committed than this
};

struct PoolStatistics {
  std::string name;
  StrategyKind strategy{};
  std::size_t used = 0;       // requested bytes of live blocks
  std::size_t taken = 0;      // of them in blocks, after rounding
  std::size_t committed = 0;  // memory held
  std::size_t ceiling = 0;    // at most; the largest number where there is none
  std::size_t count = 0;      // blocks out
  std::size_t peak_used = 0, peak_taken = 0, peak_committed = 0;
  std::uint64_t allocations = 0, failures = 0, commits = 0, remapped_bytes = 0;
  std::size_t largest_free = 0;  // one block without growing
  std::size_t grantable = 0;     // one block at most, growing and remapping included
  std::size_t stranded = 0;      // free, but in pieces too small to remap
  // Shares, 0..1. Internal: of taken, lost to rounding. External: of the free committed
  // memory, outside the largest hole. Efficiency: peak_used / peak_committed.
  double internal_fragmentation = 0, external_fragmentation = 0, efficiency = 1;
};

struct Moved {
  std::size_t blocks = 0, bytes = 0;
};

class Pool final : public Allocator {
 public:
  // `arena` must outlive it and serve no one else. Throws exhausted when `initial`
  // cannot be had, invalid_argument when it is above the ceiling.
  Pool(std::string name, Arena& arena, PoolOptions options);
  ~Pool() override;  // every block must be back; what is not is written to the log

  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer, std::size_t bytes) noexcept override;
  std::size_t trim() noexcept override;

  // Lets defragment() move a block that is out; without this no block ever moves. Asked
  // to move, the owner copies `bytes` from `from` to `to`, which do not overlap, and from
  // then on uses and frees `to`. A mover must not call the pool; one that throws keeps
  // its block where it was.
  using Mover = std::function<void(void* from, void* to, std::size_t bytes)>;
  void set_mover(void* pointer, std::size_t bytes, Mover mover);

  // Moves blocks that have a mover to lower addresses where there is space, highest first.
  Moved defragment();

  const std::string& name() const noexcept;
  PoolStatistics statistics() const;

  // The arena as a picture, in order of address; neighbours of one kind are one piece.
  enum class RangeState { taken, free, uncommitted };
  struct Piece {
    Offset offset;
    std::size_t bytes;
    RangeState what;
  };
  std::vector<Piece> map() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::memory
