// The inputs of an encoder, from a batch of packed sequences as it was copied to the device.
#pragma once

#include <cstdint>

#include "kernels/common/live_counts.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// What a batch begins with in device memory. cu_seqlens follow, one more than there are sequences;
// then the token ids; then, where there are any, the token types.
struct PackedBatchHeader {
  LiveCounts counts;
  std::int32_t has_types = 0;
};
inline constexpr int kPackedBatchHeaderBytes = 256;  // with space behind it

enum class IdType { i32, i64, f32, boolean };

// An input of the model: one number for each token.
struct TokenInput {
  enum class Holds { ids, type_ids, ones, positions } holds;
  IdType type;
  void* to;
};

struct PackedInputsCall {
  static constexpr int kMaxInputs = 5;

  const void* batch;  // the header
  TokenInput inputs[kMaxInputs];
  int count = 0;      // of inputs
  int sequences = 0;  // the most
};

// Writes the inputs of the live tokens.
void enqueue_packed_inputs(const PackedInputsCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
