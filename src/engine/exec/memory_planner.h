// Where blocks that live for a while lie in one stretch of memory, so that it is short.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::engine {

struct Block {
  std::size_t bytes;
  int first, last;  // the steps it is alive in, both included
};

struct Placement {
  std::vector<std::size_t> offsets;  // of each block
  std::size_t bytes = 0;             // of the stretch
  std::size_t least = 0;             // what is alive at once at most: no placement takes less
};

// Offsets are multiples of `alignment`; no two blocks alive at the same step overlap.
Placement place(std::span<const Block> blocks, std::size_t alignment);

}  // namespace sluice::engine
