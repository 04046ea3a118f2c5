// How fast market analytics are on this machine, beside the hardware's limit.
//
// On a GPU arrays lie in its memory, as for callers who keep them there; the time is the
// device's own. Results are compared with the CPU's before they count.
#pragma once

#include <vector>

#include "compute/accelerator.h"
#include "compute/workers.h"
#include "device/bench.h"

namespace sluice::market {

std::vector<device::BenchRow> bench_cpu(compute::Workers& workers,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

std::vector<device::BenchRow> bench_gpu(const std::shared_ptr<compute::Accelerator>& gpu,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

}  // namespace sluice::market
