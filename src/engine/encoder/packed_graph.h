// The graph of an encoder for packed sequences of any number and length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/graph/graph.h"
#include "engine/passes/passes.h"
#include "kernels/common/live_counts.h"
#include "kernels/reduce/pool_tokens.h"

namespace sluice::engine {

struct EncoderOptions {
  // The most tokens of a sequence; the model's positions must reach that far.
  std::int64_t max_length = 512;
  // Which of the model's outputs to compute; empty: its first.
  std::string output{};
  // Pools the tokens of an output [batch, length, width] to one vector for each sequence. None: the
  // output as it is, packed if it has tokens.
  std::optional<kernels::TokenPooling> pooling{};
  bool normalize = false;  // pooled vectors have an L2 norm of 1
  // What a GPU computes in: f32, f16 or bf16. Results are f32.
  DType precision = DType::f32;
};

// Optimized once; each batch sets its sizes, which takes microseconds. See SkipPadding::packed_io
// for what models it takes.
class PackedGraph {
 public:
  enum class Input { ids, type_ids, mask, positions, cu_seqlens };
  struct Sizes {
    std::int64_t tokens, sequences, longest;  // longest: tokens of the longest sequence
    friend bool operator==(const Sizes&, const Sizes&) = default;
  };

  // Throws unavailable with the reason if the model is no encoder that runs without padding.
  PackedGraph(const Graph& model, const EncoderOptions& options, compute::Workers& workers,
              Backend backend = Backend::cpu);

  // The graph for these sizes. Its constants are shared.
  Graph at(const Sizes& sizes) const;
  // For each node of it, what the rows of its first output are. Rows come first in memory.
  std::vector<kernels::RowsOf> rows() const;

  const std::vector<Input>& inputs() const noexcept { return inputs_; }
  DType input_type(std::size_t i) const { return graph_[graph_.inputs[i]].dtype; }
  std::int64_t max_length() const noexcept { return max_length_; }
  std::int64_t vocabulary() const noexcept { return vocabulary_; }
  // A token id that sequences must not have; see SkipPadding.
  std::optional<std::int64_t> padding_id() const noexcept { return padding_id_; }
  // 0: the model takes none, or there is no table that they index.
  std::int64_t token_types() const noexcept { return token_types_; }
  bool takes_types() const;
  bool pooled() const noexcept { return pooled_; }  // one row for each sequence, else each token
  std::int64_t width() const noexcept { return width_; }
  const std::vector<PassReport>& passes() const noexcept { return passes_; }

 private:
  void find_inputs(const std::string& mask);
  void check_inputs() const;
  void add_pooling(const EncoderOptions& options);
  kernels::RowsOf rows_of(const Shape& shape) const;
  std::int64_t rows_gathered(ValueId input) const;
  void check_rows() const;
  std::int64_t resized(std::int64_t size, const Sizes& sizes) const;

  Graph graph_{};
  // What stands for the numbers of tokens and sequences in graph_: primes that divide no other
  // size, so that every size shows which of them it has as a factor.
  std::int64_t tokens_ = 0, sequences_ = 0;
  std::vector<Input> inputs_{};
  std::vector<PassReport> passes_{};
  std::int64_t max_length_, vocabulary_ = 0, token_types_ = 0, width_ = 0;
  bool pooled_ = false;
  std::optional<std::int64_t> padding_id_{};
  std::string padded_input_{};
};

}  // namespace sluice::engine
