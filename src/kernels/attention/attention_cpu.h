// Attention of some queries of one head: what attention.cc does for each in turn.
#pragma once

#include <cstddef>

namespace sluice::kernels::cpu {

struct AttentionTask {
  std::size_t queries, keys, size;
  const float *q, *k, *v;  // the first row of each; rows are this far apart:
  std::size_t q_row, k_row, v_row;
  float scale;
  const float* mask;                 // null: none
  std::size_t mask_query, mask_key;  // steps in it to the next query and key
  float* out;
  std::size_t out_row;
  float* scratch;  // attention_scratch() floats, at a multiple of 64 bytes
};

std::size_t attention_queries();  // that are computed at once
std::size_t attention_scratch(std::size_t keys, std::size_t size);
void attend(const AttentionTask& task);

}  // namespace sluice::kernels::cpu
