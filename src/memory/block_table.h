// What the strategies are made of: blocks as nodes of one vector, linked by index, and
// a map from offset to node. Nothing here asks the heap per operation, and nothing lies
// in the memory it describes, which may be a GPU's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/allocator.h"
#include "memory/strategy.h"

namespace sluice::memory {

using NodeId = std::uint32_t;
inline constexpr NodeId kNone = static_cast<NodeId>(-1);

// Bytes of a block before a strategy rounds further; `bytes` is at most kLargestBlock.
constexpr std::size_t block_bytes(std::size_t bytes) {
  return bytes == 0 ? kAlignment : round_up(bytes, kAlignment);
}

enum class NodeState : std::uint8_t { unused, hole, taken, withdrawn };

// Two to a cache line: sizes are multiples of 256, so the state fits into their low bits.
class alignas(32) Node {
 public:
  Node() = default;
  Node(Offset at, std::size_t bytes, NodeState state)
      : offset(at), tagged_(bytes | static_cast<std::size_t>(state)) {}

  std::size_t bytes() const { return tagged_ & ~(kAlignment - 1); }
  NodeState state() const { return static_cast<NodeState>(tagged_ & (kAlignment - 1)); }
  Offset end() const { return offset + bytes(); }
  void set_bytes(std::size_t bytes) { tagged_ = bytes | (tagged_ & (kAlignment - 1)); }
  void set_state(NodeState state) { tagged_ = bytes() | static_cast<std::size_t>(state); }

  Offset offset = 0;

 private:
  std::size_t tagged_ = 0;

 public:
  NodeId before = kNone, after = kNone;   // neighbours by address, where a strategy keeps them
  NodeId previous = kNone, next = kNone;  // in a list of holes
};
static_assert(sizeof(Node) == 32);

class Nodes {
 public:
  Node& operator[](NodeId id) { return nodes_[id]; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const std::vector<Node>& all() const { return nodes_; }  // unused ones too

  // Ends the validity of references, not of ids.
  NodeId make(Offset offset, std::size_t bytes, NodeState state) {
    NodeId id = unused_;
    if (id == kNone) {
      id = static_cast<NodeId>(nodes_.size());
      nodes_.emplace_back();
    } else {
      unused_ = nodes_[id].next;
    }
    nodes_[id] = Node(offset, bytes, state);
    return id;
  }
  void drop(NodeId id) {
    nodes_[id].set_state(NodeState::unused);
    nodes_[id].next = unused_;
    unused_ = id;
  }

 private:
  std::vector<Node> nodes_;
  NodeId unused_ = kNone;
};

// A doubly linked list of nodes through `previous` and `next`; `head` is its first.
inline void push_front(Nodes& nodes, NodeId& head, NodeId id) {
  nodes[id].previous = kNone;
  nodes[id].next = head;
  if (head != kNone) nodes[head].previous = id;
  head = id;
}
inline void unlink(Nodes& nodes, NodeId& head, NodeId id) {
  const NodeId previous = nodes[id].previous, next = nodes[id].next;
  (previous == kNone ? head : nodes[previous].next) = next;
  if (next != kNone) nodes[next].previous = previous;
}

// Offset (a multiple of kAlignment, below kLargestArena) -> node or other number. Open
// addressing, at most a quarter full, and no gravestones: taking an entry out moves those
// behind it up. The offset is kept as its hash, eight bytes to an entry: multiplying by
// an odd number loses nothing.
class OffsetMap {
 public:
  OffsetMap() : slots_(std::size_t{1} << (32 - shift_)) {}

  void insert(Offset offset, NodeId value) {
    if (4 * ++count_ > slots_.size()) grow();
    place({hash(offset), value});
  }
  NodeId find(Offset offset) const {
    const std::uint32_t key = hash(offset);
    for (std::size_t i = home(key);; i = after(i))
      if (slots_[i].key == key || slots_[i].value == kNone) return slots_[i].value;
  }
  NodeId take(Offset offset) {  // find and remove
    const std::uint32_t key = hash(offset);
    std::size_t i = home(key);
    while (slots_[i].key != key && slots_[i].value != kNone) i = after(i);
    const NodeId value = slots_[i].value;
    if (value == kNone) return kNone;
    --count_;
    close(i);
    return value;
  }

 private:
  struct Slot {
    std::uint32_t key = 0;
    NodeId value = kNone;  // kNone: empty; such a slot's key is 0
  };
  static std::uint32_t hash(Offset offset) {
    return static_cast<std::uint32_t>(offset / kAlignment) * 0x9E3779B1u;
  }
  std::size_t home(std::uint32_t key) const { return key >> shift_; }
  std::size_t after(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void place(Slot slot) {
    std::size_t i = home(slot.key);
    while (slots_[i].value != kNone) i = after(i);
    slots_[i] = slot;
  }
  void close(std::size_t gap) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t j = after(gap); slots_[j].value != kNone; j = after(j)) {
      // An entry may move up into the gap unless its home lies behind the gap.
      if (((j - home(slots_[j].key)) & mask) < ((j - gap) & mask)) continue;
      slots_[gap] = slots_[j];
      gap = j;
    }
    slots_[gap] = {};
  }
  void grow();

  int shift_ = 22;  // 1024 entries to begin with
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

// The sums every strategy keeps.
struct Tally {
  std::size_t capacity = 0, withdrawn = 0, taken = 0, peak_taken = 0, count = 0;

  void take(std::size_t bytes) {
    taken += bytes;
    ++count;
    if (taken > peak_taken) peak_taken = taken;
  }
  void give(std::size_t bytes) {
    taken -= bytes;
    --count;
  }
  StrategyUse use(std::size_t largest_free) const {
    return {capacity,    withdrawn, taken, peak_taken, count, capacity - withdrawn - taken,
            largest_free};
  }
};

struct Span {
  Offset offset;
  std::size_t bytes;
};

// Visits `spans` in order of address, neighbours as one.
void visit_merged(std::vector<Span> spans, const Strategy::Visit& visit);

}  // namespace sluice::memory
