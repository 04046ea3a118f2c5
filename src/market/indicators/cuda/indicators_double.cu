#include "market/indicators/cuda/indicator_launch.cuh"

namespace sluice::market {

void indicators_gpu_double(const compute::Call& call, compute::LaunchContext& context) {
  on_gpu::launch_indicator<double>(call, context);
}

}  // namespace sluice::market
