// The memory behind a pool's addresses. What the strategy knows as a hole always has
// memory; granules without are withdrawn from it, so that the fast path of a pool never
// checks. Here are the slow paths: growing, taking memory from holes for a block elsewhere
// (remapping), and giving it back (trimming).
#pragma once

#include <optional>
#include <vector>

#include "memory/alloc/arena.h"
#include "memory/strategy/block_table.h"
#include "memory/strategy/strategy.h"

namespace sluice::memory {

struct BackingOptions {
  std::size_t growth, ceiling;
};

class Backing {
 public:
  Backing(Arena& arena, Strategy& strategy, BackingOptions options);

  void grow(std::size_t bytes);  // commits at least this much more; throws exhausted

  // A block although the strategy has no hole for it: by growing, by remapping, or
  // nothing when neither gives enough. No block moves. `frees` counts the blocks that were freed
  // so far; a block that moved counts as freed.
  std::optional<Offset> allocate(std::size_t bytes, std::uint64_t frees);

  std::size_t trim() noexcept;
  void release() noexcept;  // all memory, at the end; the strategy is not updated

  struct Stats {
    std::size_t committed = 0, peak_committed = 0;
    std::uint64_t commits = 0, remapped_bytes = 0;
  };
  const Stats& stats() const noexcept { return stats_; }
  std::size_t grantable() const;        // the largest block allocate() would give
  std::size_t whole_granules() const;   // bytes in holes that could be remapped
  std::vector<Span> withdrawn() const;  // in order, neighbours merged

 private:
  enum class Granule : std::uint8_t { committed, withdrawn };

  // A range that a block may take: [begin, begin + bytes). Its part above the present capacity is
  // to be added, and `lacking` of its granules have no memory.
  struct Candidate {
    Offset begin;
    std::size_t bytes, room, lacking;  // room: from begin, before something is in the way
    std::size_t extension;             // of the capacity; 0 inside it
  };
  // A snapshot for the search for free space; valid only briefly.
  struct FreeMap {
    std::vector<Span> open;  // holes and withdrawn granules, merged
    std::size_t spare;       // granules that may still be committed
    std::size_t max_in_holes;
    mutable std::optional<std::vector<Offset>> in_holes{};  // see granules_in_holes()
  };
  // No open range has `bytes` since so many blocks were freed: only freeing opens one.
  struct FailedSearch {
    std::uint64_t frees = 0;
    std::size_t bytes = kNever;
  };

  std::size_t spare_granules() const;
  std::vector<Span> open() const;
  std::optional<Candidate> find_candidate(const FreeMap& map, std::size_t bytes) const;
  std::optional<Candidate> candidate_inside(const FreeMap& map, const Need& need) const;
  std::optional<Candidate> candidate_at_end(const FreeMap& map, std::size_t bytes,
                                            const Need& need) const;
  const std::vector<Offset>& granules_in_holes(const FreeMap& map) const;
  bool enough(const FreeMap& map, const Candidate& candidate) const;
  std::vector<Offset> granules_without(Offset begin, Offset end) const;

  bool grow_with_slack(const Candidate& candidate);
  std::optional<Offset> grow_exact(const Candidate& candidate, std::size_t bytes);
  bool commit_or_remap(const std::vector<Offset>& granules);
  bool commit(const std::vector<Offset>& granules);
  std::vector<Offset> take_from_holes(std::size_t granules);
  void extend(std::size_t bytes, Granule as);

  Arena& arena_;
  Strategy& strategy_;
  const BackingOptions options_;
  const std::size_t granule_, addresses_;
  std::vector<Granule> granules_;  // of the capacity
  std::size_t without_ = 0;        // of them withdrawn
  FailedSearch failed_search_;
  Stats stats_;
};

}  // namespace sluice::memory
