// The policy of a call that runs out of memory, for arrays (Compute) and models
// (engine::Session): cached memory is trimmed, then the batch is halved. The last resort, the
// CPU, is the caller's.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace sluice::compute {

struct BatchedCall {
  // Computes the items [begin, end). Throws exhausted when memory runs out, with nothing harmed.
  std::function<void(std::size_t begin, std::size_t end)> run;
  // Frees cached memory; returns the bytes freed.
  std::function<std::size_t()> trim;
  // Whether the call may be split at all; asked before each split.
  std::function<bool()> may_split = [] { return true; };
};

struct BatchedResult {
  std::size_t done = 0;            // items computed, from the first on
  std::size_t batches = 0;         // that they took
  std::size_t largest = 0;         // items of the largest batch that fitted
  std::exception_ptr exhausted{};  // set when `done` is less than all: the last such error
};

// Computes `count` items, `batch` at a time. When a batch runs out of memory, it is tried again
// after a trim that freed something, then with half of it, and so on down to one item. Other
// errors of `run`, and Cancelled between two batches, pass through.
BatchedResult run_in_batches(std::size_t count, std::size_t batch, const BatchedCall& call);

}  // namespace sluice::compute
