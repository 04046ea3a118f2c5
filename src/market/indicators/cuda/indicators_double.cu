#include "market/indicators/cuda/indicator_kernel.cuh"

namespace sluice::market {

void batch_doubles(const compute::Call& call, compute::LaunchContext& context) {
  on_gpu::batch_on<double>(call, context);
}

}  // namespace sluice::market
