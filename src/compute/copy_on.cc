#include "compute/copy_gpu.h"
#include "compute/lane.h"
#include "device/cuda/check.h"

namespace sluice::compute {

GpuFunction copy_gpu_function() {
  return [](const Call& call, Lane& lane) {
    device::check(cudaMemcpyAsync(call.out[0].data, call.in[0].data, call.items,
                                  cudaMemcpyDeviceToDevice, lane.stream().get()));
  };
}

}  // namespace sluice::compute
