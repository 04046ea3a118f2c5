// The normalization that has a file of its own.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// Of each channel, with given statistics or, in training, with the batch's own.
void batch_norm(OpCall& call);

}  // namespace sluice::engine
