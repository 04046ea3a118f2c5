// Batch norms as part of the convolutions before them, in a graph whose shapes are open.
#pragma once

#include "engine/graph/graph.h"

namespace sluice::engine {

// Where the convolution's result is used for nothing else, and all that both hold is constant.
Graph fold_batch_norms(Graph graph);

}  // namespace sluice::engine
