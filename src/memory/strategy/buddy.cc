// Blocks are powers of two and lie at multiples of their size, so the one place a block
// can merge with, its buddy, is known from the address alone.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "memory/strategy/block_table.h"
#include "memory/strategy/strategies.h"

namespace sluice::memory {
namespace {

class Buddy final : public Strategy {
 public:
  Buddy() { heads_.fill(kNone); }

  std::optional<Offset> allocate(std::size_t bytes) override {
    if (bytes > kMaxBlockBytes) return std::nullopt;
    const std::size_t size = std::bit_ceil(block_bytes(bytes));
    const std::uint64_t fit = orders_ & (~std::uint64_t{0} << order_of(size));
    if (fit == 0) return std::nullopt;
    return take(heads_[static_cast<unsigned>(std::countr_zero(fit))], size);
  }

  std::optional<Offset> allocate_low(std::size_t bytes) override {
    if (bytes > kMaxBlockBytes) return std::nullopt;
    const std::size_t size = std::bit_ceil(block_bytes(bytes));
    NodeId lowest = kNone;
    for (unsigned order = order_of(size); order < heads_.size(); ++order)
      for (NodeId id = heads_[order]; id != kNone; id = nodes_[id].next)
        if (lowest == kNone || nodes_[id].offset < nodes_[lowest].offset) lowest = id;
    if (lowest == kNone) return std::nullopt;
    return take(lowest, size);
  }

  std::size_t free(Offset offset) noexcept override {
    const NodeId id = find(offset, NodeState::taken);
    assert(id != kNone && "freed a block that is not out");
    if (id == kNone) return 0;
    const std::size_t bytes = nodes_[id].bytes();
    tally_.give(bytes);
    make_hole(id);
    return bytes;
  }

  std::size_t size_of(Offset offset) const noexcept override {
    const NodeId id = find(offset, NodeState::taken);
    return id == kNone ? 0 : nodes_[id].bytes();
  }

  void extend(std::size_t bytes) override {
    while (bytes > 0) {
      const Offset at = tally_.capacity;
      const std::size_t aligned = at == 0 ? bytes : at & (~at + 1);
      const std::size_t size = std::min(aligned, std::bit_floor(bytes));
      const NodeId id = nodes_.make(at, size, NodeState::taken);
      map_.insert(at, id);
      tally_.capacity += size;
      bytes -= size;
      make_hole(id);
    }
  }

  // A block of `size` can begin at the last multiple of it when all behind that is free,
  // and then what is free there is one hole per bit of the capacity.
  std::size_t missing(std::size_t bytes) const noexcept override {
    if (bytes > kMaxBlockBytes) return kNever;
    const std::size_t size = std::bit_ceil(block_bytes(bytes));
    if ((orders_ & (~std::uint64_t{0} << order_of(size))) != 0) return 0;
    const std::size_t capacity = tally_.capacity, begin = capacity & ~(size - 1);
    Offset at = begin;
    for (std::size_t bit = size / 2; bit >= kAlignment; bit /= 2) {
      if ((capacity & bit) == 0) continue;
      const NodeId id = find(at, NodeState::hole);
      if (id == kNone || nodes_[id].bytes() != bit) return begin + 2 * size - capacity;
      at += bit;
    }
    return begin + size - capacity;
  }
  Need need(std::size_t bytes) const noexcept override {
    const std::size_t size = std::bit_ceil(block_bytes(bytes));
    return {size, size};
  }

  void withdraw(std::size_t granule, const Want& want) override;

  void restore(Offset granule) override {
    const NodeId id = find(granule, NodeState::withdrawn);
    assert(id != kNone);
    tally_.withdrawn -= nodes_[id].bytes();
    make_hole(id);
  }

  std::size_t count() const noexcept override { return tally_.count; }
  StrategyUse use() const noexcept override {
    const auto top = static_cast<unsigned>(std::bit_width(orders_));
    return tally_.use(top == 0 ? 0 : kAlignment << (top - 1));
  }

  void visit_free(const Visit& visit) const override { visit_merged(all(NodeState::hole), visit); }
  void visit_taken(const Visit& visit) const override {
    for (const Span& span : all(NodeState::taken)) visit(span.offset, span.bytes);
  }

 private:
  static unsigned order_of(std::size_t size) {
    return static_cast<unsigned>(std::countr_zero(size / kAlignment));
  }

  NodeId find(Offset offset, NodeState state) const {
    const NodeId id = map_.find(offset);
    return id != kNone && nodes_[id].state() == state ? id : kNone;
  }

  Offset take(NodeId hole, std::size_t size) {
    unlist(hole);
    split(hole, size);
    nodes_[hole].set_state(NodeState::taken);
    tally_.take(size);
    return nodes_[hole].offset;
  }

  void list(NodeId id) {
    const unsigned order = order_of(nodes_[id].bytes());
    nodes_[id].set_state(NodeState::hole);
    push_front(nodes_, heads_[order], id);
    orders_ |= std::uint64_t{1} << order;
    if (order >= granule_order_) [[unlikely]]
      large_.insert(nodes_[id].offset >> granule_shift());
  }
  void unlist(NodeId id) {
    const unsigned order = order_of(nodes_[id].bytes());
    unlink(nodes_, heads_[order], id);
    if (heads_[order] == kNone) orders_ &= ~(std::uint64_t{1} << order);
    if (order >= granule_order_) [[unlikely]]
      large_.erase(nodes_[id].offset >> granule_shift());
  }

  unsigned granule_shift() const {
    return granule_order_ + static_cast<unsigned>(std::countr_zero(kAlignment));
  }
  void index_large(std::size_t granule);

  // Leaves `size` bytes in the node; the upper halves become holes.
  void split(NodeId id, std::size_t size) {
    while (nodes_[id].bytes() > size) {
      const std::size_t half = nodes_[id].bytes() / 2;
      nodes_[id].set_bytes(half);
      const Offset upper = nodes_[id].offset + half;
      const NodeId hole = nodes_.make(upper, half, NodeState::hole);
      map_.insert(upper, hole);
      list(hole);
    }
  }

  void make_hole(NodeId id) {
    for (;;) {
      const NodeId buddy = find(nodes_[id].offset ^ nodes_[id].bytes(), NodeState::hole);
      if (buddy == kNone || nodes_[buddy].bytes() != nodes_[id].bytes()) return list(id);
      unlist(buddy);
      const bool below = nodes_[buddy].offset < nodes_[id].offset;
      const NodeId gone = below ? id : buddy;
      id = below ? buddy : id;
      map_.take(nodes_[gone].offset);
      nodes_.drop(gone);
      nodes_[id].set_bytes(2 * nodes_[id].bytes());
    }
  }

  std::vector<Span> all(NodeState state) const {
    std::vector<Span> found;
    for (const Node& node : nodes_.all())
      if (node.state() == state) found.push_back({node.offset, node.bytes()});
    return found;
  }

  Nodes nodes_;
  OffsetMap map_;                 // every block and hole
  std::array<NodeId, 64> heads_;  // holes of each order: kAlignment << order bytes
  std::uint64_t orders_ = 0;      // bit: the order has holes
  unsigned granule_order_ = 64;   // from the first withdraw() on
  NumberSet large_;               // holes of that order and above, by their first granule
  Tally tally_;
};

void Buddy::index_large(std::size_t granule) {
  granule_order_ = order_of(granule);
  for (const Span& hole : all(NodeState::hole))
    if (hole.bytes >= granule) large_.insert(hole.offset >> granule_shift());
}

void Buddy::withdraw(std::size_t granule, const Want& want) {
  if (granule_order_ == 64) index_large(granule);
  std::vector<Offset> selected;
  bool more = true;
  for (std::size_t i = large_.below(kNever); more && i != kNever; i = large_.below(i)) {
    const Offset begin = i << granule_shift();
    for (Offset at = nodes_[map_.find(begin)].end(); more && at > begin; at -= granule) {
      const Reply reply = want(at - granule);
      if (reply == Reply::take) selected.push_back(at - granule);
      more = reply != Reply::stop;
    }
  }
  for (const Offset at : selected) {
    Offset begin = at;  // of the hole it lies in, which shrinks as its granules leave
    NodeId id = find(at, NodeState::hole);
    for (std::size_t bit = granule; id == kNone || nodes_[id].offset + nodes_[id].bytes() <= at;
         bit *= 2) {
      begin &= ~bit;
      id = find(begin, NodeState::hole);
    }
    unlist(id);
    while (nodes_[id].bytes() > granule) {  // walk down to it, giving back the other halves
      split(id, nodes_[id].bytes() / 2);
      if (at < nodes_[id].end()) continue;
      const NodeId upper = map_.find(nodes_[id].end());
      unlist(upper);
      list(id);
      id = upper;
    }
    nodes_[id].set_state(NodeState::withdrawn);
    tally_.withdrawn += granule;
  }
}

}  // namespace

std::unique_ptr<Strategy> make_buddy() { return std::make_unique<Buddy>(); }

}  // namespace sluice::memory
