// The fallback policy of a call on the GPU:
//   1. It runs out of memory: cached memory is trimmed; if that freed any, it is tried again.
//   2. Still out of memory: the batch is halved, down to one item, where it may be split.
//   3. One item does not fit, or the GPU fails or refuses: the CPU computes what is left of a call
//      on arrays, or the whole call of a model.
// run_in_batches() does steps 1 and 2. Step 3 is its users', Compute::Impl::on_gpu (compute.cc)
// for arrays and Session::Impl::run_on_gpu (engine/session/session.cc) for models; each counts
// it in fallback_counts.h. docs/compute.md and docs/models.md tell what users see.
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
  // Returns whether the call may be split at all; asked before each split.
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
