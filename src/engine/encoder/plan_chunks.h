// Which sequences of a batch the CPU computes together, and whether its threads share each chunk or
// take one each.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::engine {

struct Chunk {
  std::vector<std::size_t> sequences;  // indices into the lengths
  std::size_t tokens = 0, longest = 0;
};

struct ChunkPlan {
  std::vector<Chunk> chunks;  // the largest first
  // Every thread computes chunks of its own: no thread waits for another between two operators,
  // and what it writes stays in its cache. False: all threads compute each chunk together, since
  // there are too few of about equal size.
  bool side_by_side = false;
};

// `lengths` are above 0; a chunk keeps the order of its sequences.
ChunkPlan plan_chunks(std::span<const std::size_t> lengths, std::size_t threads);

}  // namespace sluice::engine
