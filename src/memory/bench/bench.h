// Allocation latency: a block of a pool beside the driver's own allocators, in one run
// and over the same random sequence of sizes.
//
// A figure is the median time of one pair (a block freed, another allocated) while a few
// hundred blocks of mixed sizes are out; its detail has the 99th percentile.
#pragma once

#include <vector>

#include "device/bench/bench.h"

namespace sluice::memory {

// The four strategies over imaginary memory: our own code alone.
std::vector<device::BenchRow> bench_host(const device::BenchOptions& options,
                                         const device::BenchProgress& progress);

// On GPU number `device` of CUDA. Throws unavailable in a build without CUDA.
std::vector<device::BenchRow> bench_gpu(int device, const device::BenchOptions& options,
                                        const device::BenchProgress& progress);

}  // namespace sluice::memory
