// Scaled dot-product attention on CUDA: out = softmax(q * k^T * scale + mask) * v. Strides are in
// elements; a stride of the mask is 0 along an axis it is broadcast over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct AttentionCall {
  const void *q, *k, *v, *mask;
  // Cumulative sequence lengths, batch + 1 of them (varlen): sequence i has the rows from
  // cu_seqlens[i] to cu_seqlens[i + 1] of `tokens`, and `queries` and `keys` are the longest. Null:
  // all sequences have `queries` queries and `keys` keys.
  const std::int32_t* cu_seqlens;
  // With cu_seqlens: the real numbers of sequences and tokens; `batch` and `tokens` are the most.
  const LiveCounts* live;
  void* out;
  std::int64_t q_row, k_row, v_row;        // strides from one token to the next
  std::int64_t q_batch, k_batch, v_batch;  // strides from one sequence to the next
  std::int64_t out_batch;
  std::int64_t mask_batch, mask_head, mask_query, mask_key;
  int batch, heads, queries, keys, head_size, tokens;
  float scale;
  bool mask_is_f32;  // otherwise of the type of q
};

// Flash attention on tensor cores for f16 and bf16, compute capability 8.0 and up; head sizes are
// multiples of 8.
inline constexpr int kMaxFlashHeadSize = 128;
// A mask that is the same for all heads and queries stays in shared memory with up to so many keys.
inline constexpr int kMaxSharedMaskKeys = 8192;

// Sets the kernels' shared memory limits on the current device; call it before the first launch.
void prepare_flash_attention_f16(int head_size);
void prepare_flash_attention_bf16(int head_size);
void flash_attention_f16(const AttentionCall& call, const LaunchArgs& args);
void flash_attention_bf16(const AttentionCall& call, const LaunchArgs& args);

// Any RealType and alignment.
inline constexpr int kMaxNaiveHeadSize = 512;
void naive_attention(RealType type, const AttentionCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
