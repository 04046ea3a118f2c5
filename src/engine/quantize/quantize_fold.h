// Folds batch norms into preceding convolutions, in a graph with dynamic shapes.
#pragma once

#include "engine/graph/graph.h"

namespace sluice::engine {

// Only if the convolution has no other users, and all parameters are constant.
Graph fold_batch_norms(Graph graph);

}  // namespace sluice::engine
