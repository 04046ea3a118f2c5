// Folds data movement of constants, and constant weights that a graph expands, once for all shapes
// the graph is compiled for.
#pragma once

#include "compute/workers.h"
#include "engine/graph/graph.h"

namespace sluice::engine {

// Nodes that fail stay in the graph and report their error at run time. Folding stops at
// `max_bytes` in total plus four times the bytes of the constants, because a short chain of nodes
// may double its input each time.
Graph fold_moves(Graph graph, compute::Workers& workers, double max_bytes = 1e9);

}  // namespace sluice::engine
