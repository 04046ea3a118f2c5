#include "market/indicators/cuda/indicator_kernel.cuh"

namespace sluice::market {

void batch_floats(const compute::Call& call, compute::LaunchContext& context) {
  on_gpu::batch_on<float>(call, context);
}

}  // namespace sluice::market
