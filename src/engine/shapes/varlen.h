// Variable-length batches: sequences packed one after the other without padding.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// The additional inputs of a graph without padding, all i32.
struct VarlenBatch {
  static constexpr std::size_t kInputs = 4;
  // The row of each token in the padded batch, [1, tokens]; its position in its sequence,
  // [1, tokens]; the token at each padded position, [batch, length], >= num_tokens for padding; and
  // the cumulative sequence lengths, [batch + 1].
  static constexpr std::array<const char*, kInputs> kNames{"rows", "positions", "token_index",
                                                           "cu_seqlens"};

  std::array<Tensor, kInputs> inputs;
  std::int64_t tokens = 0;
};

// The types of these inputs.
std::array<TensorType, VarlenBatch::kInputs> varlen_types(std::int64_t batch, std::int64_t length,
                                                          std::int64_t tokens);

// The padding mask of a model.
struct PaddingMask {
  std::size_t input = 0;  // index of the model's input
  // A node reads the first position of every sequence, which must then hold a token.
  bool first = false;
  friend bool operator==(const PaddingMask&, const PaddingMask&) = default;
};

// Supported types of masks, and their minimum size.
bool is_mask_type(DType type);
inline constexpr std::int64_t kMinMaskSize = 64;

// Packs a batch by its mask [batch, length], which is 1 at tokens and 0 at padding. The number of
// tokens is rounded up (with copies of the first token), so that similar batches share a program.
// None if there is no padding. Throws unavailable with the reason if there is too little of it, or
// if the mask has other values, or no token at a first position that the model reads.
std::optional<VarlenBatch> pack_varlen(const Tensor& mask, bool first = false);

// The name of such an input in the graph; and the mask of an unpadded graph, if it is one.
std::string varlen_input_name(const std::string& mask, std::size_t index, bool first);
std::optional<PaddingMask> mask_of_varlen(const Graph& special, std::size_t inputs);

}  // namespace sluice::engine
