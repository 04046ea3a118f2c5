// What a mask of attention is made of.
#pragma once

#include "engine/graph/graph_editor.h"

namespace sluice::engine {

// Whether it is 0 for keys whose number in `input` [batch, length] is 1, and shuts out those
// whose number is 0, whatever head and query. `value` stretches to [batch, heads, length, length].
bool is_mask_of(const Editor& edit, ValueId value, ValueId input);

// The one input of the graph that a value depends on, by operators of single elements; kNoValue
// where there is no such.
ValueId only_input_of(const Editor& edit, ValueId value);

}  // namespace sluice::engine
