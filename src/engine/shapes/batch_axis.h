// Whether the rows of a batch have nothing to do with each other, so that it may be cut.
#pragma once

#include <span>

#include "engine/graph/tensor_type.h"
#include "engine/shapes/batch_split.h"

namespace sluice::engine {

// The inputs whose first size has, by the model's own words, the name that the first input's has;
// none where that is nameless, where it names another size too, or an input has no known sizes.
std::optional<Rows> rows_of(const Graph& graph, std::span<const TensorType> inputs);

// True where it is certain: every operator on the way from such an input is known to keep rows
// apart, and every output has its rows first. By two graphs for other numbers of rows, so that
// numbers made of the number of rows are found too. False where nothing can be said.
bool rows_are_independent(const Graph& graph, std::span<const TensorType> inputs, const Rows& rows,
                          compute::Workers& workers);

}  // namespace sluice::engine
