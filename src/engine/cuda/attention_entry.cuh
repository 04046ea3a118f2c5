// One entry of the batch, whose tokens may lie anywhere among those of others.
#pragma once

#include "engine/cuda/attention.h"

namespace sluice::engine::cuda {

// The call for it alone, with addresses and sizes that are its own.
template <class T>
__device__ AttentionCall of_entry(AttentionCall call, int entry) {
  std::int64_t row = 0;
  if (call.offsets != nullptr) {
    const int first = min(max(call.offsets[entry], 0), call.tokens);
    const int end = min(max(call.offsets[entry + 1], first), call.tokens);
    call.queries = call.keys = min(end - first, call.queries);
    row = first;
    entry = 0;
  }
  call.q = static_cast<const T*>(call.q) + entry * call.q_batch + row * call.q_row;
  call.k = static_cast<const T*>(call.k) + entry * call.k_batch + row * call.k_row;
  call.v = static_cast<const T*>(call.v) + entry * call.v_batch + row * call.v_row;
  const std::int64_t width = static_cast<std::int64_t>(call.heads) * call.size;
  call.out = static_cast<T*>(call.out) + entry * call.out_batch + row * width;
  return call;
}

}  // namespace sluice::engine::cuda
