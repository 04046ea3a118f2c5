// Batches of packed sequences, and what is wrong with some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::engine {

class PackedGraph;

// Sequences of token ids, one after the other: sequence i is ids[cu_seqlens[i]] to
// ids[cu_seqlens[i + 1]].
struct PackedTokens {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> type_ids;    // one for each id; empty: all 0
  std::span<const std::int32_t> cu_seqlens;  // one more than there are sequences

  std::size_t sequences() const { return cu_seqlens.empty() ? 0 : cu_seqlens.size() - 1; }
  std::size_t length(std::size_t sequence) const {
    return static_cast<std::size_t>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]);
  }
};

struct SequenceError {
  std::size_t sequence;
  std::string reason;
};

// Why the sequence cannot be computed; empty if it can.
std::string fault_of(const PackedTokens& tokens, std::size_t sequence, const PackedGraph& graph);

}  // namespace sluice::engine
