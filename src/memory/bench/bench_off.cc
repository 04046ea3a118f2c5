#include "base/error.h"
#include "memory/bench/bench.h"

namespace sluice::memory {

std::vector<device::BenchRow> bench_gpu(int, const device::BenchOptions&,
                                        const device::BenchProgress&) {
  throw Error(Code::unavailable, "this build has no CUDA; configure with --preset cuda");
}

}  // namespace sluice::memory
