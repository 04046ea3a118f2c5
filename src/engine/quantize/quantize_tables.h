// Quantizes embedding tables to int8 with a scale per row.
#pragma once

#include <set>
#include <string>

#include "engine/graph/graph.h"

namespace sluice::engine {

// Large constant f32 tables with two axes that are only used by Gather along axis 0: each Gather
// then reads int8 values and scales and multiplies them. Nodes in `keep` are not changed. Returns
// the number of quantized tables.
int quantize_tables(Graph& graph, const std::set<std::string>& keep);

}  // namespace sluice::engine
