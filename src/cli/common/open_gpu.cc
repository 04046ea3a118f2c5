#include "cli/common/open_gpu.h"

#include <utility>

#include "base/error.h"
#include "device/bench/bench.h"
#include "engine/exec/cuda/cuda_program.h"

namespace sluice::cli {

std::shared_ptr<engine::cuda::Context> open_gpu(engine::cuda::Options options) {
  try {
    return engine::make_cuda_context(std::move(options));
  } catch (const Error&) {
    const device::BenchGpus found = device::bench_gpus();
    if (!found.gpus.empty()) throw;
    throw Error(Code::unavailable, "there is no GPU to run on: " + found.why_none +
                                       "; 'sluice doctor' says what is missing");
  }
}

}  // namespace sluice::cli
