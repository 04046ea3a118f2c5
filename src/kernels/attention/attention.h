// The kernels, in the order in which make_attention() (engine/exec/cuda/nodes/attention.cc) asks:
//   flash_attention_sm90   f16 and bf16 on Hopper, heads of 32 and 64     flash_attention_sm90.h
//   flash_attention_f16, _bf16  tensor cores from 8.0 on, heads of up to 128  flash_attention.cuh
//   naive_attention        any type and head size                         attention_naive.cu
//
// Scaled dot-product attention on CUDA: out = softmax(q * k^T * scale + mask) * v. Strides are in
// elements; a stride of the mask is 0 along an axis it is broadcast over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct AttentionCall {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;
  // Cumulative sequence lengths, batch + 1 of them (varlen): sequence i has the rows from
  // cu_seqlens[i] to cu_seqlens[i + 1] of `tokens`, and `queries` and `keys` are the longest. Null:
  // all sequences have `queries` queries and `keys` keys.
  const std::int32_t* cu_seqlens = nullptr;
  // With cu_seqlens: the real numbers of sequences and tokens; `batch` and `tokens` are the most.
  const LiveCounts* live = nullptr;
  void* out = nullptr;
  // [rows of q, heads]: the log of the sum of the exponentials of a query's scores, which the
  // backward pass needs; null: not saved.
  float* lse = nullptr;
  std::int64_t q_row = 0, k_row = 0, v_row = 0;        // strides from one token to the next
  std::int64_t q_batch = 0, k_batch = 0, v_batch = 0;  // strides from one sequence to the next
  std::int64_t out_batch = 0;
  std::int64_t mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  int batch = 0, heads = 0, queries = 0, keys = 0, head_size = 0, tokens = 0;
  float scale = 1;
  bool has_mask = false;     // whether `mask` will be set
  bool mask_is_f32 = false;  // otherwise of the type of q
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
