// Attention by Hopper's groups of four warps.
#pragma once

#include "kernels/attention/attention.h"

namespace sluice::kernels::cuda {

// Of f16 and bf16, heads of 32 or 64, sequences whose keys and values fit into shared memory, and
// masks that are the same for all heads and queries.
bool hopper_attends(const AttentionCall& call);
void prepare_hopper_attention(RealType type, int size);
void hopper_attention(RealType type, const AttentionCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
