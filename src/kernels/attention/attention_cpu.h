// Attention on the CPU: one head of one sequence, computed by one thread.
#pragma once

#include <cstddef>

namespace sluice::kernels::cpu {

struct AttentionTask {
  std::size_t queries = 0, keys = 0, size = 0;
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // the first row of each; strides of rows:
  std::size_t q_row = 0, k_row = 0, v_row = 0;
  float scale = 1;
  const float* mask = nullptr;               // null: none
  std::size_t mask_query = 0, mask_key = 0;  // its strides along queries and keys
  float* out = nullptr;
  std::size_t out_row = 0;
  // The log of the sum of the exponentials of each query's scores, lse_row apart; null: not saved.
  float* lse = nullptr;
  std::size_t lse_row = 0;
  float* scratch = nullptr;  // attention_scratch() floats, aligned to 64 bytes
};

std::size_t attention_queries();  // queries of a block
std::size_t attention_scratch(std::size_t keys, std::size_t size);
void attend(const AttentionTask& task);

}  // namespace sluice::kernels::cpu
