// Sequences of several lengths without the padding between them: their tokens one after the
// other, and where each of them was.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "engine/specialize.h"

namespace sluice::engine {

// What a graph without padding takes besides the model's inputs, all i32.
struct Packing {
  static constexpr std::size_t kParts = 4;
  // Of each token the place in the batch, [1, tokens], and that in its sequence, [1, tokens]; of
  // each place its token, [batch, length], a number beyond the last where there is none; where
  // sequences begin, and the last one's end, [batch + 1].
  static constexpr std::array<const char*, kParts> kNames{"rows", "positions", "places", "offsets"};

  std::array<Tensor, kParts> parts;
  std::int64_t tokens = 0;
};

// What the parts are for a batch of that many sequences.
std::array<TensorType, Packing::kParts> packing_types(std::int64_t batch, std::int64_t length,
                                                      std::int64_t tokens);

// Of a mask [batch, length] that is 1 where there is a token and 0 elsewhere. A few tokens more
// than there are, so that batches of nearly as many run the same program. None where the mask has
// other numbers, and where so little of it is padding that skipping it saves nothing.
std::optional<Packing> pack(const Tensor& mask);

// The name of a part in the graph, by that of the mask; and which of the model's inputs is the
// mask of a graph that has been packed, if it has.
std::string part_name(const std::string& mask, std::size_t part);
std::optional<std::size_t> mask_of_packed(const Graph& special, std::size_t inputs);

}  // namespace sluice::engine
