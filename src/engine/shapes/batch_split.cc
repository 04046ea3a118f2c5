#include "engine/shapes/batch_split.h"

#include <cstring>
#include <exception>
#include <utility>

#include "compute/fallback/batched_run.h"

namespace sluice::engine {
namespace {

Tensor some_items(const Tensor& all, std::int64_t begin, std::int64_t end) {
  Shape shape = all.shape();
  shape[0] = end - begin;
  const std::size_t item = all.bytes() / static_cast<std::size_t>(all.shape()[0]);
  auto* const at = static_cast<std::byte*>(all.data()) + item * static_cast<std::size_t>(begin);
  return Tensor::view(all.dtype(), shape, at, std::make_shared<Tensor>(all));
}

std::vector<Datum> slice_inputs(std::span<const Datum> inputs, const BatchInputs& batch,
                                std::int64_t begin, std::int64_t end) {
  std::vector<Datum> chunk(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < chunk.size(); ++i)
    if (batch.inputs[i]) chunk[i] = some_items(chunk[i].tensor, begin, end);
  return chunk;
}

// Allocates the full results from the shapes of a chunk. Releases kept memory if there is not
// enough.
std::vector<Datum> allocate_results(const std::vector<Datum>& chunk, std::int64_t items,
                                    std::int64_t count, const SplitRunner& runner) {
  std::vector<Datum> all;
  for (const Datum& some : chunk) {
    Shape shape = some.tensor.shape();
    shape[0] = shape[0] / items * count;
    try {
      all.emplace_back(Tensor(some.tensor.dtype(), shape));
    } catch (const Error& error) {
      if (error.code() != Code::exhausted || runner.trim() == 0) throw;
      all.emplace_back(Tensor(some.tensor.dtype(), shape));
    }
  }
  return all;
}

void store_items(const std::vector<Datum>& all, const std::vector<Datum>& chunk, std::int64_t begin,
                 std::int64_t end) {
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const Tensor& from = chunk[i].tensor;
    const std::size_t item = from.bytes() / static_cast<std::size_t>(end - begin);
    if (item > 0)
      std::memcpy(
          static_cast<std::byte*>(all[i].tensor.data()) + item * static_cast<std::size_t>(begin),
          from.data(), from.bytes());
  }
}

}  // namespace

SplitResult run_split(std::span<const Datum> inputs, const BatchInputs& batch, std::int64_t chunk,
                      const SplitRunner& runner) {
  std::vector<Datum> all;
  const auto run = [&](std::size_t first, std::size_t last) {
    const auto begin = static_cast<std::int64_t>(first), end = static_cast<std::int64_t>(last);
    if (end - begin == batch.count) {
      all = runner.run(inputs);
      return;
    }
    const std::vector<Datum> some = runner.run(slice_inputs(inputs, batch, begin, end));
    if (all.empty()) all = allocate_results(some, end - begin, batch.count, runner);
    store_items(all, some, begin, end);
  };
  const compute::BatchedResult done = compute::run_in_batches(
      static_cast<std::size_t>(batch.count), static_cast<std::size_t>(chunk),
      {.run = run, .trim = runner.trim, .may_split = runner.may_split});
  if (done.exhausted) std::rethrow_exception(done.exhausted);
  return {std::move(all), static_cast<std::int64_t>(done.largest)};
}

}  // namespace sluice::engine
