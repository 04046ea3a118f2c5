#include "market/indicators/batch.h"
#include "market/indicators/cuda/indicators_gpu.h"

namespace sluice::market {
namespace {

void on_gpu(const compute::Call& call, compute::LaunchContext& context) {
  if (call.with<Batch>().floats != 0)
    indicators_gpu_float(call, context);
  else
    indicators_gpu_double(call, context);
}

}  // namespace

GpuFunction batch_gpu_function() { return on_gpu; }

}  // namespace sluice::market
