#include "market/indicators/batch.cuh"

namespace sluice::market {

void batch_doubles(const compute::Call& call, compute::Lane& lane) {
  on_gpu::batch_on<double>(call, lane);
}

}  // namespace sluice::market
