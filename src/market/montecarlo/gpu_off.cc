#include "market/montecarlo/gpu.h"

namespace sluice::market {

MonteCarloOnGpu montecarlo_on_gpu() { return {}; }

}  // namespace sluice::market
