// Encoders without what they compute for padding.
#pragma once

#include "engine/graph/graph_editor.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {

// `tokens` 0: only `mask` is found.
struct SkipPadding {
  std::int64_t tokens = 0;  // that are left, see packing.h
  // That it is a mask was found for these types before, and is not computed again; its number and
  // what is asked of it are found in any case.
  bool proved = false;
  PaddingMask mask{};  // found
};

// What is computed for each token by itself, and the attention among them, is computed for the
// tokens of the mask alone: [batch, length, ...] becomes [1, tokens, ...] in between, and the
// graph has the inputs of a Packing more. What it gives out is zero where there is no token, and
// as before where there is one. Returns how many nodes are smaller now.
//
// Throws unavailable, with the reason, where that is not certain: masks that are no function of
// one input, or a node that would see the zeros. One that looks at the first place of sequences is
// none where there is a token, see PaddingMask.
int skip_padding(Editor& edit, SkipPadding& how);

}  // namespace sluice::engine
