#include "market/indicators/cuda/indicator_launch.cuh"

namespace sluice::market {

void indicators_gpu_float(const compute::Call& call, compute::LaunchContext& context) {
  on_gpu::launch_indicator<float>(call, context);
}

}  // namespace sluice::market
