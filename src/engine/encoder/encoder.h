// A transformer encoder that takes packed sequences of any number and length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/encoder/packed_graph.h"
#include "engine/exec/program.h"

namespace sluice::engine {

// Sequences of token ids, one after the other: sequence i is ids[cu_seqlens[i]] to
// ids[cu_seqlens[i + 1]].
struct PackedTokens {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> type_ids;    // one for each id; empty: all 0
  std::span<const std::int32_t> cu_seqlens;  // one more than there are sequences

  std::size_t sequences() const { return cu_seqlens.empty() ? 0 : cu_seqlens.size() - 1; }
};

struct SequenceError {
  std::size_t sequence;
  std::string reason;
};

// Safe to run from several threads at once. The same sequence gives the same bits alone, in any
// batch and in any order.
class Encoder {
 public:
  // Throws as PackedGraph does.
  Encoder(const Graph& model, compute::Workers& workers, const EncoderOptions& options = {});
  ~Encoder();

  const PackedGraph& graph() const noexcept;

  // Writes one row of graph().width() floats for each sequence, or for each token if the output is
  // not pooled, to `out`. A sequence that cannot be computed (it is empty, too long, has an unknown
  // id, or its result is not finite) gets zeros and an error; the others are not affected. Throws
  // invalid_argument if `out` has another size.
  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<float> out) const;

  // The program for one batch, for profiles.
  std::shared_ptr<const Program> program(const PackedGraph::Sizes& sizes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
