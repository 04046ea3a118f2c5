// What a machine has of what work needs, and so how fast the work can be at most.
#pragma once

#include <optional>

#include "compute/accelerator.h"
#include "compute/workers.h"
#include "market/bench/workload.h"

namespace sluice::market {

// A second. Absent: not known, and no limit.
struct Limits {
  std::optional<double> bytes{};  // as a copy reaches them, read and written
  std::optional<double> fp64{}, matrix_fp64{}, issued{}, special{}, shared_bytes{};
  device::BenchRow copy{};  // how `bytes` was measured
};

// Measured; of the units, by the card's datasheet.
Limits limits_of(compute::Accelerator& gpu, bool quick);

// Measured: memory, and multiply-adds of the vector units. There is none for integer work.
Limits limits_of(compute::Workers& workers, bool quick);

// Units of work a second; the scarcest decides.
std::optional<double> limit_of(const Needs& needs, const Limits& limits);

}  // namespace sluice::market
