// First fit and best fit: blocks and holes in one chain by address, freed neighbours
// merge, and `Holes` says which hole a block gets.
#pragma once

#include <cassert>

#include "memory/strategy/block_table.h"

namespace sluice::memory {

template <class Holes>
class TableStrategy final : public Strategy {
 public:
  std::optional<Offset> allocate(std::size_t bytes) override {
    if (bytes > kMaxBlockBytes) return std::nullopt;
    const std::size_t size = block_bytes(bytes);
    const NodeId hole = holes_.find(nodes_, size);
    if (hole == kNone) return std::nullopt;
    return take(hole, size);
  }

  std::optional<Offset> allocate_low(std::size_t bytes) override {
    if (bytes > kMaxBlockBytes) return std::nullopt;
    const std::size_t size = block_bytes(bytes);
    for (NodeId id = first_; id != kNone; id = nodes_[id].after)
      if (nodes_[id].state() == NodeState::hole && nodes_[id].bytes() >= size)
        return take(id, size);
    return std::nullopt;
  }

  std::size_t free(Offset offset) noexcept override {
    const NodeId id = map_.take(offset);
    const bool out = id != kNone && nodes_[id].state() == NodeState::taken;
    assert(out && "freed a block that is not out");
    if (!out) {
      if (id != kNone) map_.insert(offset, id);
      return 0;
    }
    const std::size_t bytes = nodes_[id].bytes();
    tally_.give(bytes);
    make_hole(id);
    return bytes;
  }

  std::size_t size_of(Offset offset) const noexcept override {
    const NodeId id = find_taken(offset);
    return id == kNone ? 0 : nodes_[id].bytes();
  }

  void extend(std::size_t bytes) override {
    const NodeId id = nodes_.make(tally_.capacity, bytes, NodeState::taken);
    tally_.capacity += bytes;
    nodes_[id].before = last_;
    (last_ == kNone ? first_ : nodes_[last_].after) = id;
    last_ = id;
    make_hole(id);
  }

  std::size_t missing(std::size_t bytes) const noexcept override {
    if (bytes > kMaxBlockBytes) return kNever;
    const std::size_t size = block_bytes(bytes);
    if (holes_.find(nodes_, size) != kNone) return 0;
    const bool hole_at_end = last_ != kNone && nodes_[last_].state() == NodeState::hole;
    return size - (hole_at_end ? nodes_[last_].bytes() : 0);
  }
  Need need(std::size_t bytes) const noexcept override { return {block_bytes(bytes), kAlignment}; }

  void withdraw(std::size_t granule, const Want& want) override {
    for (NodeId id = last_; id != kNone; id = nodes_[id].before) {
      if (nodes_[id].state() != NodeState::hole) continue;
      bool more = true;  // of the hole is left below
      for (Offset at = nodes_[id].end() / granule * granule;
           more && at >= granule && at - granule >= nodes_[id].offset; at -= granule)
        switch (want(at - granule)) {
          case Reply::stop: return;
          case Reply::leave: break;
          case Reply::take: more = carve(id, at - granule, granule);
        }
    }
  }

  void restore(Offset granule) override {
    const NodeId id = map_.take(granule);
    assert(id != kNone && nodes_[id].state() == NodeState::withdrawn);
    tally_.withdrawn -= nodes_[id].bytes();
    make_hole(id);
  }

  StrategyUse use() const noexcept override { return tally_.use(holes_.largest(nodes_)); }
  std::size_t count() const noexcept override { return tally_.count; }

  void visit_free(const Visit& visit) const override { visit_all(NodeState::hole, visit); }
  void visit_taken(const Visit& visit) const override { visit_all(NodeState::taken, visit); }

 private:
  NodeId find_taken(Offset offset) const {
    const NodeId id = map_.find(offset);
    return id != kNone && nodes_[id].state() == NodeState::taken ? id : kNone;
  }

  void visit_all(NodeState state, const Visit& visit) const {
    for (NodeId id = first_; id != kNone; id = nodes_[id].after)
      if (nodes_[id].state() == state) visit(nodes_[id].offset, nodes_[id].bytes());
  }

  // The block lies at the front of the hole, which keeps its node and shrinks.
  Offset take(NodeId hole, std::size_t size) {
    const Offset offset = nodes_[hole].offset;
    NodeId block = hole;
    if (nodes_[hole].bytes() == size) {
      holes_.erase(nodes_, hole);
      nodes_[hole].set_state(NodeState::taken);
    } else {
      block = nodes_.make(offset, size, NodeState::taken);
      link_before(hole, block);
      holes_.change(nodes_, hole, offset + size, nodes_[hole].bytes() - size);
    }
    map_.insert(offset, block);
    tally_.take(size);
    return offset;
  }

  void link_before(NodeId id, NodeId fresh) {
    const NodeId before = nodes_[id].before;
    nodes_[fresh].before = before;
    nodes_[fresh].after = id;
    nodes_[id].before = fresh;
    (before == kNone ? first_ : nodes_[before].after) = fresh;
  }

  void unchain(NodeId id) {
    const NodeId before = nodes_[id].before, after = nodes_[id].after;
    (before == kNone ? first_ : nodes_[before].after) = after;
    (after == kNone ? last_ : nodes_[after].before) = before;
    nodes_.drop(id);
  }

  bool is_hole(NodeId id) const { return nodes_.or_sentinel(id).state() == NodeState::hole; }

  // Merges with the neighbours on both sides.
  void make_hole(NodeId id) {
    const NodeId before = nodes_[id].before, after = nodes_[id].after;
    const std::size_t own = nodes_[id].bytes();
    if (is_hole(before)) {
      std::size_t bytes = nodes_[before].bytes() + own;
      unchain(id);
      if (is_hole(after)) {
        bytes += nodes_[after].bytes();
        holes_.erase(nodes_, after);
        unchain(after);
      }
      holes_.change(nodes_, before, nodes_[before].offset, bytes);
    } else if (is_hole(after)) {
      const Offset offset = nodes_[id].offset;
      const std::size_t bytes = nodes_[after].bytes() + own;
      unchain(id);
      holes_.change(nodes_, after, offset, bytes);
    } else {
      nodes_[id].set_state(NodeState::hole);
      holes_.insert(nodes_, id);
    }
  }

  // Takes the granule at `at` out of the hole; what lies above it becomes a hole of its
  // own, what lies below keeps the node. False when nothing is left below.
  bool carve(NodeId hole, Offset at, std::size_t granule) {
    const Node old = nodes_[hole];
    holes_.erase(nodes_, hole);
    if (old.end() > at + granule) {
      const NodeId above = nodes_.make(at + granule, old.end() - at - granule, NodeState::hole);
      link_behind(hole, above);
      holes_.insert(nodes_, above);
    }
    NodeId out = hole;
    if (at > old.offset) {
      out = nodes_.make(at, granule, NodeState::withdrawn);
      link_behind(hole, out);
      nodes_[hole].set_bytes(at - old.offset);
      holes_.insert(nodes_, hole);
    } else {
      nodes_[hole].set_bytes(granule);
      nodes_[hole].set_state(NodeState::withdrawn);
    }
    map_.insert(at, out);
    tally_.withdrawn += granule;
    return out != hole;
  }

  void link_behind(NodeId id, NodeId fresh) {
    const NodeId after = nodes_[id].after;
    nodes_[fresh].before = id;
    nodes_[fresh].after = after;
    nodes_[id].after = fresh;
    (after == kNone ? last_ : nodes_[after].before) = fresh;
  }

  Nodes nodes_;
  OffsetMap map_;  // taken and withdrawn
  Holes holes_;
  NodeId first_ = kNone, last_ = kNone;
  Tally tally_;
};

}  // namespace sluice::memory
