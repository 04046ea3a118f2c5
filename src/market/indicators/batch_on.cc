#include "market/indicators/batch.h"
#include "market/indicators/gpu.h"

namespace sluice::market {
namespace {

void on_gpu(const compute::Call& call, compute::Lane& lane) {
  if (call.with<Batch>().floats != 0)
    batch_floats(call, lane);
  else
    batch_doubles(call, lane);
}

}  // namespace

GpuFunction batch_gpu_function() { return on_gpu; }

}  // namespace sluice::market
