// Varlen: sequences of different lengths, packed one after the other. Every CUDA kernel of
// attention is varlen when AttentionCall::cu_seqlens is set: flash_attention_{f16,bf16}
// (flash_attention.cuh), flash_attention_sm90 and attention_naive take a sequence's addresses and
// length from here.
#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {

// The call with the real numbers of sequences and tokens. No sequence is taken for longer than the
// longest, on which the kernels' partition of the work relies.
__device__ inline AttentionCall live_call(AttentionCall call) {
  if (call.live == nullptr) return call;
  call.batch = min(call.batch, call.live->sequences);
  call.tokens = min(call.tokens, call.live->tokens);
  call.queries = min(call.queries, call.live->longest);
  call.keys = min(call.keys, call.live->longest);
  return call;
}

// The rows of one sequence of the batch, among all of q and out, and among all of k and v.
struct SequenceRows {
  int q_row, k_row;
  int queries, keys;
};
__device__ inline SequenceRows rows_of(const AttentionCall& call, int sequence) {
  if (call.cu_seqlens == nullptr)
    return {sequence * call.queries, sequence * call.keys, call.queries, call.keys};
  const int first = min(max(call.cu_seqlens[sequence], 0), call.tokens);
  const int end = min(max(call.cu_seqlens[sequence + 1], first), call.tokens);
  const int length = min(end - first, call.queries);
  return {first, first, length, length};
}

// The call for one sequence of the batch, with its addresses and lengths.
template <class T>
__device__ AttentionCall sequence_call(AttentionCall call, int sequence) {
  std::int64_t row = 0;
  if (call.cu_seqlens != nullptr) {
    const SequenceRows rows = rows_of(call, sequence);
    call.queries = call.keys = rows.queries;
    row = rows.q_row;
    sequence = 0;
  }
  call.q = static_cast<const T*>(call.q) + sequence * call.q_batch + row * call.q_row;
  call.k = static_cast<const T*>(call.k) + sequence * call.k_batch + row * call.k_row;
  call.v = static_cast<const T*>(call.v) + sequence * call.v_batch + row * call.v_row;
  const std::int64_t width = static_cast<std::int64_t>(call.heads) * call.head_size;
  call.out = static_cast<T*>(call.out) + sequence * call.out_batch + row * width;
  if (call.lse != nullptr)
    call.lse += (static_cast<std::int64_t>(sequence) * call.queries + row) * call.heads;
  return call;
}

// Sequences to launch: with cu_seqlens one more, which clears the tokens outside of all sequences.
__host__ __device__ inline int sequence_count(const AttentionCall& call) {
  return call.batch + (call.cu_seqlens != nullptr ? 1 : 0);
}

// Thread blocks to launch for `items` of work. A bucket may hold far more sequences than a batch
// has: then those that the device can hold at once take the items in turn.
inline unsigned resident_blocks(const AttentionCall& call, std::int64_t items, int per_sm) {
  if (call.live == nullptr) return static_cast<unsigned>(items);
  return static_cast<unsigned>(
      std::min<std::int64_t>(items, std::int64_t{multiprocessors()} * per_sm));
}

// Zeroes a head of the tokens [begin, end): every `threads`-th element from `first` on.
template <class T>
__device__ void clear_rows(const AttentionCall& call, int head, int begin, int end, int first,
                           int threads) {
  const std::int64_t width = static_cast<std::int64_t>(call.heads) * call.head_size;
  T* const out = static_cast<T*>(call.out) + begin * width + head * call.head_size;
  const std::int64_t count = static_cast<std::int64_t>(end - begin) * call.head_size;
  for (std::int64_t i = first; i < count; i += threads)
    out[i / call.head_size * width + i % call.head_size] = T(0.0f);
}

// Zeroes the tokens outside of all sequences; called by `threads` threads, each with its own
// `first`. There are none between two sequences unless cu_seqlens is invalid, and then the output
// must not show stale memory either.
template <class T>
__device__ void clear_padding(const AttentionCall& call, int head, int first, int threads) {
  const auto seqlen_at = [&](int i) { return min(max(call.cu_seqlens[i], 0), call.tokens); };
  clear_rows<T>(call, head, 0, seqlen_at(0), first, threads);
  clear_rows<T>(call, head, seqlen_at(call.batch), call.tokens, first, threads);
  for (int i = first; i < call.batch; i += threads) {
    const int begin = seqlen_at(i), end = seqlen_at(i + 1);
    clear_rows<T>(call, head, begin + min(max(end - begin, 0), call.queries), end, 0, 1);
  }
}

}  // namespace sluice::kernels::cuda
