// What a graph makes of constants alone by moving elements, and weights of products that it makes
// of one number: done once for all the shapes it runs with, which then share the result.
#pragma once

#include "compute/workers.h"
#include "engine/graph/graph.h"

namespace sluice::engine {

// Nodes that cannot be run stay, for whoever runs the graph to tell about. So do those that would
// make more, in all, than `most_made` bytes and four times what the constants have: a short chain
// of nodes may double what it gets each time.
Graph fold_moves(Graph graph, compute::Workers& workers, double most_made = 1e9);

}  // namespace sluice::engine
