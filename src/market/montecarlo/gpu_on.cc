#include "market/montecarlo/gpu.h"
#include "market/montecarlo/gpu_kernels.h"

namespace sluice::market {

MonteCarloOnGpu montecarlo_on_gpu() { return {.asian = asian_gpu, .paths = paths_gpu}; }

}  // namespace sluice::market
