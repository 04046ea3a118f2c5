// Placement of blocks in an arena: four strategies behind one interface. A strategy
// knows offsets only, never memory, so the same code serves host and GPU and is
// tested with neither. Sizes are rounded up to kAlignment.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace sluice::memory {

using Offset = std::size_t;

enum class StrategyKind {
  first_fit,  // lowest address that fits: keeps the end of the arena empty, so it trims best
  best_fit,   // smallest hole that fits: least waste on mixed sizes
  buddy,      // powers of two: constant time and fast merging, wastes up to half a block
  slab,       // equal sizes side by side: nothing between blocks of one size; large ones best fit
};

std::string_view to_string(StrategyKind kind) noexcept;
std::optional<StrategyKind> strategy_kind(std::string_view name) noexcept;
inline constexpr StrategyKind kStrategyKinds[] = {StrategyKind::first_fit, StrategyKind::best_fit,
                                                  StrategyKind::buddy, StrategyKind::slab};

struct StrategyUse {
  std::size_t capacity = 0;      // bytes managed, [0, capacity)
  std::size_t withdrawn = 0;     // of them out of use
  std::size_t taken = 0;         // in blocks, after rounding
  std::size_t peak_taken = 0;    // the most so far
  std::size_t count = 0;         // of blocks out
  std::size_t free = 0;          // capacity - withdrawn - taken
  std::size_t largest_free = 0;  // one allocate() of this many bytes succeeds now
};

// A hole of `bytes` that begins at a multiple of `alignment` is enough for a block.
struct Need {
  std::size_t bytes, alignment;
};

inline constexpr std::size_t kMaxArenaBytes = std::size_t{1023}
                                              << 30;  // a strategy manages no more
inline constexpr std::size_t kMaxBlockBytes = kMaxArenaBytes;
inline constexpr std::size_t kNever = static_cast<std::size_t>(-1);

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Returns nothing when no hole is large enough.
  [[nodiscard]] virtual std::optional<Offset> allocate(std::size_t bytes) = 0;

  // The same at the lowest address the strategy can find, however long that takes.
  [[nodiscard]] virtual std::optional<Offset> allocate_low(std::size_t bytes) {
    return allocate(bytes);
  }

  // Returns how many bytes the block took. `offset` must be out; anything else is a
  // bug of the caller: it ends the program in debug builds, and otherwise returns 0
  // with nothing changed.
  virtual std::size_t free(Offset offset) noexcept = 0;

  // Bytes a block really took, after rounding; 0 when it is not out.
  virtual std::size_t size_of(Offset offset) const noexcept = 0;

  // Adds [capacity, capacity + bytes) at the end; a multiple of kAlignment. How much
  // must be added before allocate(bytes) succeeds is missing(bytes), 0 when nothing and
  // kNever when the block is too large for any arena.
  virtual void extend(std::size_t bytes) = 0;
  virtual std::size_t missing(std::size_t bytes) const noexcept = 0;
  virtual Need need(std::size_t bytes) const noexcept = 0;  // of at most kMaxBlockBytes

  // Offers the granules that lie wholly in a hole, from the highest address down, until it is
  // told to stop; those that are taken are out of use until restore() makes them a hole again.
  // `granule` is a power of two and always the same.
  enum class Reply { take, leave, stop };
  using Want = std::function<Reply(Offset granule)>;
  virtual void withdraw(std::size_t granule, const Want& want) = 0;
  virtual void restore(Offset granule) = 0;  // must be withdrawn

  virtual StrategyUse use() const noexcept = 0;
  virtual std::size_t count() const noexcept = 0;  // of blocks out

  // Every hole as [offset, offset + bytes), in order of address; neighbours are merged.
  using Visit = std::function<void(Offset offset, std::size_t bytes)>;
  virtual void visit_free(const Visit& visit) const = 0;
  // Visits the holes, or parts of them, that serve blocks of any size.
  virtual void visit_holes(const Visit& visit) const { visit_free(visit); }
  virtual void visit_taken(const Visit& visit) const = 0;  // any order
};

std::unique_ptr<Strategy> make_strategy(StrategyKind kind);

}  // namespace sluice::memory
