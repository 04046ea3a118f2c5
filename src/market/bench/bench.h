// Benchmarks of market analytics on this machine, with the hardware's limits.
//
// On a GPU the arrays are in device memory and the time is measured on the device, except for the
// row "host to host". Results are compared with the CPU's before a row is reported.
#pragma once

#include <string_view>
#include <vector>

#include "compute/accelerator.h"
#include "compute/workers.h"
#include "device/bench/bench.h"

namespace sluice::market {

// The first row, "copy", is the memory bandwidth, which limits most of the others.
std::vector<device::BenchRow> bench_cpu(compute::Workers& workers,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

std::vector<device::BenchRow> bench_gpu(const std::shared_ptr<compute::Accelerator>& gpu,
                                        const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

// The names of all benchmark cases, for --only.
std::vector<std::string_view> bench_names();

}  // namespace sluice::market
