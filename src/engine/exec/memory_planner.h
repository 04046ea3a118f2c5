// Static memory planning: assigns an arena offset to each block by its lifetime, so that the arena
// is small.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::engine {

struct Block {
  std::size_t bytes;
  int first, last;  // the steps during which it is alive, inclusive
};

struct ArenaLayout {
  std::vector<std::size_t> offsets;  // of each block
  std::size_t bytes = 0;             // of the arena
  std::size_t peak_live = 0;         // maximum bytes alive at once: a lower bound of `bytes`
};

// Offsets are multiples of `alignment`; no two blocks alive at the same step overlap.
ArenaLayout plan_memory(std::span<const Block> blocks, std::size_t alignment);

}  // namespace sluice::engine
