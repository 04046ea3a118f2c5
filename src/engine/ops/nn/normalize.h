// Batch normalization.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// Normalizes each channel with the given statistics or, in training, with those of the batch.
void batch_norm(OpCall& call);

}  // namespace sluice::engine
