// Memory offsets of the elements that a tensor of indices addresses.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// GatherElements and ScatterElements: for each index, which replaces its own coordinate along
// `axis`, the offset in data of that shape. Bounds are checked.
std::vector<std::int64_t> gather_offsets(const OpCall& call, std::size_t input, const Shape& data,
                                         int axis);

// GatherND and ScatterND: the last axis of the indices is a tuple that addresses a block of the
// data.
struct GatherNdOffsets {
  std::vector<std::int64_t> offsets;  // where each block begins
  Shape tuples;                       // shape of the indices without their last axis
  int used;                           // leading axes of the data that batch and tuple index
};
GatherNdOffsets gather_nd_offsets(const OpCall& call, std::size_t input, const Shape& data,
                                  int batch_dims);

}  // namespace sluice::engine
