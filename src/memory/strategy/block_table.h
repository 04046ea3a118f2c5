// Shared by the strategies: blocks as nodes of one vector, linked by index, and
// a map from offset to node. Nothing here asks the heap per operation, and nothing lies
// in the memory it describes, which may be a GPU's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/alloc/allocator.h"
#include "memory/strategy/strategy.h"

namespace sluice::memory {

using NodeId = std::uint32_t;
inline constexpr NodeId kNone = static_cast<NodeId>(-1);

// Bytes of a block before a strategy rounds further; `bytes` is at most kMaxBlockBytes.
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
  Nodes() : nodes_(1) {}

  Node& operator[](NodeId id) { return nodes_[id]; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  // Returns a dummy node for kNone so that callers need no branch: whether a neighbour exists is
  // unpredictable, and a mispredicted branch costs more than a write to the dummy, which stays
  // unused.
  Node& or_sentinel(NodeId id) { return nodes_[id == kNone ? 0 : id]; }
  const Node& or_sentinel(NodeId id) const { return nodes_[id == kNone ? 0 : id]; }
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
  nodes.or_sentinel(head).previous = id;
  head = id;
}
inline void unlink(Nodes& nodes, NodeId& head, NodeId id) {
  const NodeId previous = nodes[id].previous, next = nodes[id].next;
  nodes.or_sentinel(previous).next = next;
  nodes.or_sentinel(next).previous = previous;
  head = previous == kNone ? next : head;
}

// Offset (a multiple of kAlignment, below kMaxArenaBytes) -> node or other number. Buckets of
// seven entries, one cache line each, a quarter full at most: all seven are compared at once,
// without a branch. Entries that do not fit their bucket go to a list, which stays short. The
// offset is kept as its hash: multiplying by an odd number loses nothing.
class OffsetMap {
 public:
  OffsetMap() : buckets_(std::size_t{1} << (32 - shift_)) {}

  void insert(Offset offset, NodeId value) {
    if (++count_ > 2 * buckets_.size()) grow();
    place(hash(offset), value);
  }
  NodeId find(Offset offset) const {
    const std::uint32_t key = hash(offset);
    const Bucket& bucket = buckets_[key >> shift_];
    const unsigned at = bucket.which(key);
    return at < kWidth ? bucket.values[at] : find_spilled(key);
  }
  NodeId take(Offset offset) {  // find and remove
    const std::uint32_t key = hash(offset);
    Bucket& bucket = buckets_[key >> shift_];
    const unsigned at = bucket.which(key);
    if (at >= kWidth) return take_spilled(key);
    --count_;
    return bucket.take(at);
  }

 private:
  static constexpr unsigned kWidth = 7;
  static constexpr std::uint32_t hash(Offset offset) {
    return static_cast<std::uint32_t>(offset / kAlignment) * 0x9E3779B1u;
  }
  // The key of an offset above every arena.
  static constexpr std::uint32_t kNoKey = static_cast<std::uint32_t>(-1) * 0x9E3779B1u;
  static_assert(kMaxArenaBytes / kAlignment < static_cast<std::uint32_t>(-1));

  typedef std::uint32_t Four __attribute__((vector_size(16)));
  struct alignas(64) Bucket {
    // Where the key is, or more than kWidth. At most one of the comparisons holds, so their
    // numbers can be put together.
    unsigned which(std::uint32_t key) const {
      const Four all = {key, key, key, key};
      const Four hit =
          (Four(keys[0] == all) & Four{1, 2, 3, 4}) | (Four(keys[1] == all) & Four{5, 6, 7, 8});
      return (hit[0] | hit[1] | hit[2] | hit[3]) - 1;
    }
    void add(std::uint32_t key, NodeId value) {
      keys[count / 4][count % 4] = key;
      values[count++] = value;
    }
    NodeId take(unsigned at) {  // the last entry fills the gap
      const NodeId value = values[at];
      const unsigned last = --count;
      keys[at / 4][at % 4] = keys[last / 4][last % 4];
      values[at] = values[last];
      keys[last / 4][last % 4] = kNoKey;
      return value;
    }
    Four keys[2] = {{kNoKey, kNoKey, kNoKey, kNoKey}, {kNoKey, kNoKey, kNoKey, kNoKey}};
    std::array<NodeId, kWidth> values;
    std::uint32_t count = 0;
  };
  struct Entry {
    std::uint32_t key;
    NodeId value;
  };

  void place(std::uint32_t key, NodeId value) {
    Bucket& bucket = buckets_[key >> shift_];
    if (bucket.count == kWidth) return spilled_.push_back({key, value});
    bucket.add(key, value);
  }
  NodeId find_spilled(std::uint32_t key) const;
  NodeId take_spilled(std::uint32_t key);
  void grow();

  int shift_ = 25;  // 128 buckets to begin with
  std::vector<Bucket> buckets_;
  std::vector<Entry> spilled_;
  std::size_t count_ = 0;
};

// A set of small numbers, searched from the highest down: a bit for each number, and above each
// word of bits a bit that is set where the word has any.
class NumberSet {
 public:
  void insert(std::size_t n);
  void erase(std::size_t n);
  // The highest below `end`; kNever when there is none.
  std::size_t below(std::size_t end) const;

 private:
  static constexpr std::size_t kLevels = 6;
  std::array<std::vector<std::uint64_t>, kLevels> levels_;
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
