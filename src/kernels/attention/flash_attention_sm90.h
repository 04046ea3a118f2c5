// Flash attention with wgmma for Hopper (compute capability 9.0).
#pragma once

#include "kernels/attention/attention.h"

namespace sluice::kernels::cuda {

// Whether the kernel can do it, for f16 and bf16: head sizes of 32 and 64, and no mask or one that
// is the same for all heads and queries, of at most 2,048 keys. With a work queue in LaunchArgs,
// thread blocks end at about the same time, whatever the lengths of sequences.
bool flash_attention_sm90_supports(const AttentionCall& call);
// Sets the kernels' shared memory limits on the current device; call it before the first launch.
void prepare_flash_attention_sm90(RealType type, int head_size);
void flash_attention_sm90(RealType type, const AttentionCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
