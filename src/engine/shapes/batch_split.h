// A call cut into parts along its rows, for want of memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// Which inputs of a call have rows, and how many.
struct Rows {
  std::vector<bool> inputs;
  std::int64_t count = 0;
};

// How parts are run, and what is done where there is no memory.
struct PartRunner {
  std::function<std::vector<Datum>(std::span<const Datum> inputs)> run;
  // Gives back what is kept for later runs; bytes.
  std::function<std::size_t()> trim;
  // How many rows to try where so many did not fit; 0: there is no way.
  std::function<std::int64_t(std::int64_t rows)> smaller;
};

struct InParts {
  std::vector<Datum> results;
  std::int64_t part;  // rows of the largest that fitted
};

// Runs `part` rows at a time, fewer where `run` throws exhausted. Every result has its rows in
// the first dimension. Throws what `run` throws, exhausted where there is no way.
InParts run_in_parts(std::span<const Datum> inputs, const Rows& rows, std::int64_t part,
                     const PartRunner& runner);

}  // namespace sluice::engine
