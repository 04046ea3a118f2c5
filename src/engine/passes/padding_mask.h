// Verifies padding masks of attention.
#pragma once

#include "engine/graph/graph_editor.h"

namespace sluice::engine {

// Whether the attention bias `value` is 0 for keys where `input` [batch, length] is 1, and excludes
// keys where it is 0, for every head and query. `value` broadcasts to [batch, heads, length,
// length].
bool is_padding_mask(const GraphEditor& edit, ValueId value, ValueId input);

// The only graph input that a value depends on through elementwise operators; kNoValue otherwise.
ValueId sole_graph_input(const GraphEditor& edit, ValueId value);

}  // namespace sluice::engine
