#include "market/indicators/batch.h"
#include "market/indicators/cuda/indicators_gpu.h"

namespace sluice::market {
namespace {

void on_gpu(const compute::Call& call, compute::LaunchContext& context) {
  if (call.with<Batch>().floats != 0)
    batch_floats(call, context);
  else
    batch_doubles(call, context);
}

}  // namespace

GpuFunction batch_gpu_function() { return on_gpu; }

}  // namespace sluice::market
