// Removes padding from encoders (unpadding).
#pragma once

#include <optional>
#include <string>

#include "engine/graph/graph_editor.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {

// With `tokens` 0, only the mask is searched.
struct SkipPadding {
  std::int64_t tokens = 0;  // tokens without padding, see varlen.h
  // The graph's inputs and outputs are packed too: [batch, length, ...] becomes [1, tokens, ...].
  // Its inputs are then those of the model that are read, and two of i32: "positions" [1, tokens],
  // of each token in its sequence, and "cu_seqlens" [batch + 1].
  bool packed_io = false;
  // The mask was verified for these types before and is not verified again.
  bool proved = false;
  PaddingMask mask{};  // result
  // Result, with `packed_io`: the token id that the model takes for padding and does not count
  // (RoBERTa). What it computes holds for sequences without this id.
  std::optional<std::int64_t> padding_id{};
  std::string padded_input{};  // the input that is compared with it
};

// Restricts token-wise nodes and the attention between tokens to the tokens of the mask:
// [batch, length, ...] becomes [1, tokens, ...] inside, and the graph gets the inputs of a
// VarlenBatch. Outputs are zero at padding and unchanged at tokens. With `packed_io` there is no
// padded value at all: what reads the first token of every sequence, or sums over its tokens,
// becomes PoolTokens. Returns the number of rewritten nodes.
//
// Throws unavailable with the reason if this is not provably correct: the mask is no function of
// one input, or a node may read padding. Reading the first position is safe if it holds a token,
// see PaddingMask.
int skip_padding(GraphEditor& edit, SkipPadding& how);

}  // namespace sluice::engine
