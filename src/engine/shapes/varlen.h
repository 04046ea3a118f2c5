// Sequences of several lengths without the padding between them: their tokens one after the
// other, and where each of them was.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "engine/graph/tensor_type.h"

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

// What a model asks of the mask that says what is padding.
struct PaddingMask {
  std::size_t input = 0;  // which of the model's it is
  // Something looks at the first place of every sequence, so that there has to be a token.
  bool first = false;
  friend bool operator==(const PaddingMask&, const PaddingMask&) = default;
};

// Masks of these types are read, of at least so many places.
bool is_mask_type(DType type);
inline constexpr std::int64_t kFewestPlaces = 64;

// Of a mask [batch, length] that is 1 where there is a token and 0 elsewhere. A few tokens more
// than there are (copies of the first), so that batches of nearly as many run the same program.
// None where so little of it is padding that skipping it saves nothing. Throws unavailable, with
// the reason, where the mask has other numbers, or no token at a first place that is looked at.
std::optional<Packing> pack(const Tensor& mask, bool first = false);

// The name of a part in the graph; and the mask of a graph that has been packed, if it has.
std::string part_name(const std::string& mask, std::size_t part, bool first);
std::optional<PaddingMask> mask_of_packed(const Graph& special, std::size_t inputs);

}  // namespace sluice::engine
