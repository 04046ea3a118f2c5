// Hardware limits of a machine and the roofline of a workload: its highest possible rate.
#pragma once

#include <optional>

#include "compute/accelerator.h"
#include "compute/workers.h"
#include "market/bench/workload.h"

namespace sluice::market {

// Rates per second. An absent rate is unknown and no limit.
struct Limits {
  std::optional<double> bytes{};  // as a copy reaches them, read and written
  std::optional<double> fp64{}, matrix_fp64{}, issued{}, special{}, shared_bytes{};
  device::BenchRow copy{};  // how `bytes` was measured
};

// Memory bandwidth is measured; the rates of the units are those of the datasheet.
Limits limits_of(compute::Accelerator& gpu, bool quick);

// Memory bandwidth and multiply-adds of the vector units are measured. There is no limit for
// integer work.
Limits limits_of(compute::Workers& workers, bool quick);

// Returns the units of work a second; the scarcest resource decides.
std::optional<double> limit_of(const ResourceNeeds& needs, const Limits& limits);

}  // namespace sluice::market
