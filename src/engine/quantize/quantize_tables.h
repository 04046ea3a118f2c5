// Tables that rows are looked up in (embeddings), in bytes with a scale for each row.
#pragma once

#include <set>
#include <string>

#include "engine/graph/graph.h"

namespace sluice::engine {

// Constant tables of f32 with two axes and many elements, where all who use them are a Gather of
// rows: each then looks up bytes and scales, and multiplies. Nodes in `keep` stay as they are.
// Returns how many tables became small.
int quantize_tables(Graph& graph, const std::set<std::string>& keep);

}  // namespace sluice::engine
