#include "market/indicators/batch.cuh"

namespace sluice::market {

void batch_floats(const compute::Call& call, compute::Lane& lane) {
  on_gpu::batch_on<float>(call, lane);
}

}  // namespace sluice::market
