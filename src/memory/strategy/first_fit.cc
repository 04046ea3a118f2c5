// Holes in order of address, so that the lowest one that fits is found in O(log n): a
// tree of maxima, eight children to a node, over equal regions of the arena. A region
// knows the holes that begin in it; where they become many, regions are halved.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "memory/strategy/strategies.h"
#include "memory/strategy/table_strategy.h"

namespace sluice::memory {
namespace {

class HolesByAddress {
 public:
  HolesByAddress();

  void insert(Nodes& nodes, NodeId id);
  void erase(Nodes& nodes, NodeId id);
  // Gives the hole another place and size; its order among the others stays.
  void change(Nodes& nodes, NodeId id, Offset offset, std::size_t bytes);

  NodeId find(const Nodes& nodes, std::size_t bytes) const;  // lowest address; or kNone
  std::size_t largest(const Nodes&) const { return levels_.back()[0] * kAlignment; }

 private:
  using Units = std::uint32_t;  // of kAlignment, to keep the tree in the cache
  static_assert(kMaxArenaBytes / kAlignment <= std::numeric_limits<Units>::max());
  static constexpr std::size_t kFan = 8;
  static constexpr std::size_t kPlenty = std::size_t{1} << 15;      // regions for a large arena
  static constexpr std::size_t kMaxRegions = std::size_t{1} << 21;  // for many holes
  static constexpr int kMaxHolesPerRegion = 24;                     // then it is halved

  std::size_t region(Offset offset) const { return offset >> shift_; }
  void link(Nodes& nodes, NodeId id);
  void raise(std::size_t at, Units to);
  static Units units(std::size_t bytes) { return static_cast<Units>(bytes / kAlignment); }
  typedef Units Four __attribute__((vector_size(16)));
  static std::size_t first_that_fits(const Units* siblings, Units need);
  static Units max_of(const Units* siblings);
  void settle(const Nodes& nodes, std::size_t at);  // after something left or shrank
  void rebuild(Nodes& nodes, std::size_t regions, int shift);

  int shift_ = 16;                          // log2 of a region's bytes
  std::vector<NodeId> heads_;               // first hole of each region
  std::vector<std::vector<Units>> levels_;  // largest hole: per region, ..., of all
  int walked_ = 0;                          // by the last link()
};

HolesByAddress::HolesByAddress() {
  Nodes none;
  rebuild(none, kFan * kFan * kFan, shift_);
}

void HolesByAddress::rebuild(Nodes& nodes, std::size_t regions, int shift) {
  std::vector<NodeId> holes;
  for (const NodeId head : heads_)
    for (NodeId id = head; id != kNone; id = nodes[id].next) holes.push_back(id);
  shift_ = shift;
  heads_.assign(regions, kNone);
  levels_.clear();
  for (std::size_t n = regions;; n /= kFan) {
    levels_.emplace_back(n, 0);
    if (n == 1) break;
  }
  for (auto id = holes.rbegin(); id != holes.rend(); ++id) {  // each goes in front
    push_front(nodes, heads_[region(nodes[*id].offset)], *id);
    raise(region(nodes[*id].offset), units(nodes[*id].bytes()));
  }
}

// Inserts a hole into the free list of its region, in address order.
void HolesByAddress::link(Nodes& nodes, NodeId id) {
  NodeId& head = heads_[region(nodes[id].offset)];
  walked_ = 0;
  NodeId last = kNone;
  for (NodeId at = head; at != kNone && nodes[at].offset < nodes[id].offset; ++walked_) {
    last = at;
    at = nodes[at].next;
  }
  if (last == kNone) return push_front(nodes, head, id);
  const NodeId next = nodes[last].next;
  nodes[id].previous = last;
  nodes[id].next = next;
  nodes[last].next = id;
  if (next != kNone) nodes[next].previous = id;
}

void HolesByAddress::raise(std::size_t at, Units to) {
  for (auto& level : levels_) {
    if (level[at] >= to) return;
    level[at] = to;
    at /= kFan;
  }
}

void HolesByAddress::settle(const Nodes& nodes, std::size_t at) {
  Units max_units = 0;
  for (NodeId id = heads_[at]; id != kNone; id = nodes[id].next)
    max_units = std::max(max_units, units(nodes[id].bytes()));
  for (std::size_t level = 0;; ++level) {
    if (levels_[level][at] == max_units) return;
    levels_[level][at] = max_units;
    if (level + 1 == levels_.size()) return;
    max_units = max_of(&levels_[level][at / kFan * kFan]);
    at /= kFan;
  }
}

void HolesByAddress::insert(Nodes& nodes, NodeId id) {
  while (region(nodes[id].offset) >= heads_.size()) {
    if (heads_.size() < kPlenty)
      rebuild(nodes, heads_.size() * kFan, shift_);
    else
      rebuild(nodes, heads_.size(), shift_ + 1);
  }
  link(nodes, id);
  raise(region(nodes[id].offset), units(nodes[id].bytes()));
  if (walked_ > kMaxHolesPerRegion && heads_.size() < kMaxRegions && shift_ > 11)
    rebuild(nodes, heads_.size() * kFan, shift_ - 3);
}

void HolesByAddress::erase(Nodes& nodes, NodeId id) {
  const std::size_t at = region(nodes[id].offset);
  unlink(nodes, heads_[at], id);
  if (units(nodes[id].bytes()) == levels_[0][at]) settle(nodes, at);
}

void HolesByAddress::change(Nodes& nodes, NodeId id, Offset offset, std::size_t bytes) {
  const std::size_t at = region(nodes[id].offset), before = nodes[id].bytes();
  if (region(offset) != at) {
    erase(nodes, id);
    nodes[id].offset = offset;
    nodes[id].set_bytes(bytes);
    return insert(nodes, id);
  }
  nodes[id].offset = offset;
  nodes[id].set_bytes(bytes);
  if (bytes > before)
    raise(at, units(bytes));
  else if (units(before) == levels_[0][at])
    settle(nodes, at);
}

// Selects one of eight siblings at once: branches could not be predicted.
std::size_t HolesByAddress::first_that_fits(const Units* siblings, Units need) {
  constexpr Four kLow{1, 2, 4, 8}, kHigh{16, 32, 64, 128};
  Four low, high;
  std::memcpy(&low, siblings, sizeof low);
  std::memcpy(&high, siblings + 4, sizeof high);
  const Four fits =
      (reinterpret_cast<Four>(low >= need) & kLow) | (reinterpret_cast<Four>(high >= need) & kHigh);
  std::uint64_t pairs[2];
  std::memcpy(pairs, &fits, sizeof pairs);
  const std::uint64_t any = pairs[0] | pairs[1];
  return static_cast<std::size_t>(std::countr_zero(any | (any >> 32)));
}

HolesByAddress::Units HolesByAddress::max_of(const Units* siblings) {
  Four low, high;
  std::memcpy(&low, siblings, sizeof low);
  std::memcpy(&high, siblings + 4, sizeof high);
  const Four larger = reinterpret_cast<Four>(low > high);
  const Four most = (low & larger) | (high & ~larger);
  const auto of_two = [](Units a, Units b) { return a ^ ((a ^ b) & -static_cast<Units>(a < b)); };
  return of_two(of_two(most[0], most[1]), of_two(most[2], most[3]));
}

NodeId HolesByAddress::find(const Nodes& nodes, std::size_t bytes) const {
  const Units need = units(bytes);
  if (levels_.back()[0] < need) return kNone;
  std::size_t at = 0;
  for (std::size_t level = levels_.size() - 1; level-- > 0;)
    at = at * kFan + first_that_fits(&levels_[level][at * kFan], need);
  NodeId id = heads_[at];
  while (nodes[id].bytes() < bytes) id = nodes[id].next;
  return id;
}

}  // namespace

std::unique_ptr<Strategy> make_first_fit() {
  return std::make_unique<TableStrategy<HolesByAddress>>();
}

}  // namespace sluice::memory
