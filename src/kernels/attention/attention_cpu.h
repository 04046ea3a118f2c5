// Attention on the CPU: one head of one sequence, computed by one thread.
#pragma once

#include <cstddef>

namespace sluice::kernels::cpu {

struct AttentionTask {
  std::size_t queries, keys, size;
  const float *q, *k, *v;  // the first row of each; strides of rows:
  std::size_t q_row, k_row, v_row;
  float scale;
  const float* mask;                 // null: none
  std::size_t mask_query, mask_key;  // its strides along queries and keys
  float* out;
  std::size_t out_row;
  float* scratch;  // attention_scratch() floats, aligned to 64 bytes
};

std::size_t attention_queries();  // queries of a block
std::size_t attention_scratch(std::size_t keys, std::size_t size);
void attend(const AttentionTask& task);

}  // namespace sluice::kernels::cpu
