// Where the elements lie that a tensor of indices names.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// For each index of that input, which replaces the index's own along `axis`: the place in
// data of that shape. Checked.
std::vector<std::int64_t> element_places(const OpCall& call, std::size_t input, const Shape& data,
                                         int axis);

// Indices whose last axis is a tuple, which names a block of the data.
struct TuplePlaces {
  std::vector<std::int64_t> places;  // where each block begins
  Shape tuples;                      // of the indices without their last axis
  int used;                          // axes of the data that tuples and batches go through
};
TuplePlaces tuple_places(const OpCall& call, std::size_t input, const Shape& data, int batch_dims);

}  // namespace sluice::engine
