// Holes in bins by size, so that one that fits is found by two bit scans: a row per
// power of two, 64 columns in it. Up to 16 KiB every size has its own bin; above, sizes of
// one bin differ by less than 1/64.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "memory/strategy/block_table.h"

namespace sluice::memory {

class HolesBySize {
 public:
  HolesBySize() { heads_.fill(kNone); }

  void insert(Nodes& nodes, NodeId id);
  void erase(Nodes& nodes, NodeId id);
  // Gives the hole another place and size.
  void change(Nodes& nodes, NodeId id, Offset offset, std::size_t bytes);

  // The smallest hole that is large enough, at the resolution of the bins; of nearly one size, the
  // smallest of the first kLook. kNone only when there is none at all.
  NodeId find(const Nodes& nodes, std::size_t bytes) const;
  std::size_t largest(const Nodes& nodes) const;

 private:
  static constexpr unsigned kColumnBits = 6, kColumns = 1u << kColumnBits, kRows = 32;
  static constexpr int kLook = 4;

  struct Bin {
    unsigned row, column;
    std::size_t index() const { return row * kColumns + column; }
    bool operator==(const Bin&) const = default;
  };
  // Adding the columns first makes the exact bins of small sizes the lowest row of the
  // same rule: no branch, which random sizes would make costly.
  static Bin bin_of(std::size_t bytes) {
    const std::size_t units = bytes / kAlignment + kColumns;
    const auto row = static_cast<unsigned>(std::bit_width(units)) - 1 - kColumnBits;
    return {row, static_cast<unsigned>(units >> row) & (kColumns - 1)};
  }
  NodeId bin_above(Bin bin) const;
  NodeId smallest(const Nodes& nodes, NodeId from, std::size_t at_least, int look) const;

  std::array<NodeId, kRows * kColumns> heads_;
  std::array<std::uint64_t, kRows> columns_{};  // bit: the bin has holes
  std::uint64_t rows_ = 0;                      // bit: the row has
};

inline void HolesBySize::insert(Nodes& nodes, NodeId id) {
  const Bin bin = bin_of(nodes[id].bytes());
  push_front(nodes, heads_[bin.index()], id);
  columns_[bin.row] |= std::uint64_t{1} << bin.column;
  rows_ |= std::uint64_t{1} << bin.row;
}

inline void HolesBySize::erase(Nodes& nodes, NodeId id) {
  const Bin bin = bin_of(nodes[id].bytes());
  NodeId& head = heads_[bin.index()];
  unlink(nodes, head, id);
  columns_[bin.row] &= ~(std::uint64_t{head == kNone} << bin.column);
  rows_ &= ~(std::uint64_t{columns_[bin.row] == 0} << bin.row);
}

inline void HolesBySize::change(Nodes& nodes, NodeId id, Offset offset, std::size_t bytes) {
  const bool stays = bin_of(nodes[id].bytes()) == bin_of(bytes);
  if (!stays) erase(nodes, id);
  nodes[id].offset = offset;
  nodes[id].set_bytes(bytes);
  if (!stays) insert(nodes, id);
}

// The first hole of the next bin that has any; everything in it is larger.
inline NodeId HolesBySize::bin_above(Bin bin) const {
  const std::uint64_t in_row = columns_[bin.row] & (~std::uint64_t{1} << bin.column);
  if (in_row != 0)
    return heads_[bin.row * kColumns + static_cast<unsigned>(std::countr_zero(in_row))];
  const std::uint64_t above = rows_ & (~std::uint64_t{1} << bin.row);
  if (above == 0) return kNone;
  const auto row = static_cast<unsigned>(std::countr_zero(above));
  return heads_[row * kColumns + static_cast<unsigned>(std::countr_zero(columns_[row]))];
}

inline NodeId HolesBySize::smallest(const Nodes& nodes, NodeId from, std::size_t at_least,
                                    int look) const {
  NodeId best = kNone;
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (NodeId id = from; id != kNone && look > 0; id = nodes[id].next, --look) {
    const std::size_t bytes = nodes[id].bytes();
    if (bytes < at_least || bytes >= best_bytes) continue;
    best = id;
    best_bytes = bytes;
    if (bytes == at_least) break;
  }
  return best;
}

inline NodeId HolesBySize::find(const Nodes& nodes, std::size_t bytes) const {
  const Bin bin = bin_of(bytes);
  const NodeId own = heads_[bin.index()];
  if (own != kNone) {
    const NodeId fits = smallest(nodes, own, bytes, kLook);
    if (fits != kNone) return fits;
  }
  const NodeId above = bin_above(bin);
  if (above != kNone) return above;
  return smallest(nodes, own, bytes, std::numeric_limits<int>::max());
}

inline std::size_t HolesBySize::largest(const Nodes& nodes) const {
  if (rows_ == 0) return 0;
  const auto row = static_cast<unsigned>(std::bit_width(rows_)) - 1;
  const auto column = static_cast<unsigned>(std::bit_width(columns_[row])) - 1;
  std::size_t max_bytes = 0;
  for (NodeId id = heads_[row * kColumns + column]; id != kNone; id = nodes[id].next)
    max_bytes = std::max(max_bytes, nodes[id].bytes());
  return max_bytes;
}

}  // namespace sluice::memory
