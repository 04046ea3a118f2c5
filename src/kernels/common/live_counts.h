// How much of a bucket a batch fills. A program is compiled, and its CUDA graph captured, for a
// bucket of tokens; each batch writes its counts to device memory, and kernels stop there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

struct LiveCounts {
  std::int32_t tokens = 0, sequences = 0;
  std::int32_t longest = 0;  // tokens of the longest sequence
};

// What the rows of an operator's result are.
enum class RowsOf { other, tokens, sequences };

// The rows that an operator computes: all, or the first so many of `capacity`. Rows behind them
// hold whatever was there.
struct LiveRows {
  const LiveCounts* counts = nullptr;  // in device memory; null: all rows
  RowsOf of = RowsOf::other;
  std::int64_t capacity = 0;

  // Where the number of rows lies, in device memory; null: all.
  const std::int32_t* count() const {
    if (counts == nullptr || of == RowsOf::other) return nullptr;
    constexpr std::size_t kAt[] = {0, offsetof(LiveCounts, tokens),
                                   offsetof(LiveCounts, sequences)};
    return reinterpret_cast<const std::int32_t*>(reinterpret_cast<const std::byte*>(counts) +
                                                 kAt[static_cast<int>(of)]);
  }
};

}  // namespace sluice::kernels
