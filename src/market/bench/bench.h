// How fast market analytics are on this machine, beside the hardware's limit.
//
// On a GPU arrays lie in its memory, as for callers who keep them there, and the time is the
// device's own; but for the row that says "host to host". Results are compared with the
// CPU's before they count.
#pragma once

#include <string_view>
#include <vector>

#include "compute/accelerator.h"
#include "compute/workers.h"
#include "device/bench/bench.h"

namespace sluice::market {

// The first row, "copy", is what limits most of the others.
std::vector<device::BenchRow> bench_cpu(compute::Workers& workers,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

std::vector<device::BenchRow> bench_gpu(const std::shared_ptr<compute::Accelerator>& gpu,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

// The names of all figures, for --only.
std::vector<std::string_view> bench_names();

}  // namespace sluice::market
