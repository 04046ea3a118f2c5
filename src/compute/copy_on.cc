#include "compute/copy_gpu.h"
#include "compute/launch_context.h"
#include "device/cuda/check.h"

namespace sluice::compute {

GpuFunction copy_gpu_function() {
  return [](const Call& call, LaunchContext& context) {
    device::check(cudaMemcpyAsync(call.out[0].data, call.in[0].data, call.items,
                                  cudaMemcpyDeviceToDevice, context.stream().get()));
  };
}

}  // namespace sluice::compute
