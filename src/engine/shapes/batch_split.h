// Splits a call along the batch axis when memory runs out.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// The inputs of a call that have a batch axis, and the batch size.
struct BatchInputs {
  std::vector<bool> inputs;
  std::int64_t count = 0;
};

// Runs chunks of a batch; see compute/fallback/batched_run.h for trim and may_split.
struct SplitRunner {
  std::function<std::vector<Datum>(std::span<const Datum> inputs)> run;
  std::function<std::size_t()> trim;
  std::function<bool()> may_split = [] { return true; };
};

struct SplitResult {
  std::vector<Datum> results;
  std::int64_t chunk;  // batch items of the largest chunk that fitted
};

// Runs chunks of `chunk` batch items, and smaller ones if memory runs out
// (compute::run_in_batches). Every result has the batch axis first. Throws what `run` throws, and
// exhausted if no chunk fits.
SplitResult run_split(std::span<const Datum> inputs, const BatchInputs& batch, std::int64_t chunk,
                      const SplitRunner& runner);

}  // namespace sluice::engine
