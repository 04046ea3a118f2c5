// One entry of the batch, whose tokens may lie anywhere among those of others.
#pragma once

#include "kernels/attention/attention.h"

namespace sluice::kernels::cuda {

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

// How many there are to launch: where sequences lie one after the other, one more for the tokens
// of none of them.
inline int entries_of(const AttentionCall& call) {
  return call.batch + (call.offsets != nullptr ? 1 : 0);
}

// Zeros for a head of the tokens from `begin` to `end`, each `step`th number from `first` on.
template <class T>
__device__ void clear_tokens(const AttentionCall& call, int head, int begin, int end, int first,
                             int step) {
  const std::int64_t width = static_cast<std::int64_t>(call.heads) * call.size;
  T* const out = static_cast<T*>(call.out) + begin * width + head * call.size;
  const std::int64_t count = static_cast<std::int64_t>(end - begin) * call.size;
  for (std::int64_t i = first; i < count; i += step)
    out[i / call.size * width + i % call.size] = T(0.0f);
}

// Zeros for those tokens, by `step` threads that are numbered by `first`. There are none between
// two sequences, unless the model names offsets that it should not: what was in memory before
// must not show then either.
template <class T>
__device__ void clear_rest(const AttentionCall& call, int head, int first, int step) {
  const auto offset = [&](int i) { return min(max(call.offsets[i], 0), call.tokens); };
  clear_tokens<T>(call, head, 0, offset(0), first, step);
  clear_tokens<T>(call, head, offset(call.batch), call.tokens, first, step);
  for (int i = first; i < call.batch; i += step) {
    const int begin = offset(i), end = offset(i + 1);
    clear_tokens<T>(call, head, begin + min(max(end - begin, 0), call.queries), end, 0, 1);
  }
}

}  // namespace sluice::kernels::cuda
