#include "engine/placement.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "memory/allocator.h"

namespace sluice::engine {
namespace {

std::size_t most_alive(std::span<const Block> blocks) {
  std::map<int, std::ptrdiff_t> changes;
  for (const Block& block : blocks) {
    changes[block.first] += static_cast<std::ptrdiff_t>(block.bytes);
    changes[block.last + 1] -= static_cast<std::ptrdiff_t>(block.bytes);
  }
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

// The smallest hole below the end that `bytes` fit in, among blocks in the order of offsets.
struct Span {
  std::size_t from, to;
};
std::size_t hole_for(std::span<const Span> taken, std::size_t bytes) {
  std::size_t end = 0, best = 0, best_size = 0;
  for (const Span& span : taken) {
    if (span.from > end && span.from - end >= bytes &&
        (best_size == 0 || span.from - end < best_size)) {
      best = end;
      best_size = span.from - end;
    }
    end = std::max(end, span.to);
  }
  return best_size > 0 ? best : end;
}

}  // namespace

// The largest first: small ones then fill the holes between them.
Placement place(std::span<const Block> blocks, std::size_t alignment) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  Placement made{std::vector<std::size_t>(blocks.size()), 0, most_alive(blocks)};
  std::vector<std::size_t> placed;  // in the order of offsets
  std::vector<Span> taken;
  for (const std::size_t i : order) {
    const Block& block = blocks[i];
    const std::size_t bytes = memory::round_up(block.bytes, alignment);
    taken.clear();
    for (const std::size_t other : placed)
      if (blocks[other].first <= block.last && block.first <= blocks[other].last)
        taken.push_back({made.offsets[other],
                         made.offsets[other] + memory::round_up(blocks[other].bytes, alignment)});
    made.offsets[i] = hole_for(taken, bytes);
    made.bytes = std::max(made.bytes, made.offsets[i] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) {
                                     return made.offsets[a] < made.offsets[b];
                                   }),
                  i);
  }
  return made;
}

}  // namespace sluice::engine
