// What attention's kernels are told. Steps are in elements; a mask's step is 0 along what it
// is stretched over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

struct AttentionCall {
  const void *q, *k, *v, *mask;
  // Null: all of the batch have as many queries, and as many keys. Otherwise each has the rows
  // from its offset to the next, which lie among `tokens`; `queries` and `keys` are the most.
  const std::int32_t* offsets;
  void* out;
  std::int64_t q_row, k_row, v_row;        // from one token to the next
  std::int64_t q_batch, k_batch, v_batch;  // from one entry of the batch to the next
  std::int64_t out_batch;
  std::int64_t mask_batch, mask_head, mask_query, mask_key;
  int batch, heads, queries, keys, size, tokens;
  float scale;
  bool mask_is_f32;  // otherwise of the type of q
};

// On tensor cores, 16-bit types: sizes that are multiples of 8 up to 128.
inline constexpr int kMostFlashSize = 128;
// Masks that are the same for all heads and queries are kept in shared memory up to here.
inline constexpr int kMostKeptKeys = 8192;

// Sets what the device must know of a kernel before it is first launched.
void prepare_flash_f16(int size);
void prepare_flash_bf16(int size);
void flash_f16(const AttentionCall& call, const LaunchArgs& args);
void flash_bf16(const AttentionCall& call, const LaunchArgs& args);

// Any of the types, sizes up to 512.
inline constexpr int kMostPlainSize = 512;
void plain_attention(RealType type, const AttentionCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
