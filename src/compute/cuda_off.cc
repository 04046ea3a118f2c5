#include "compute/accelerator.h"
#include "compute/copy.h"
#include "compute/device_pools.h"

namespace sluice::compute {

std::unique_ptr<Accelerator> make_cuda_accelerator(const CudaOptions&) {
  throw Error(Code::unavailable, "this build has no CUDA");
}

std::unique_ptr<memory::Pools> make_device_pools(int, const memory::MemoryConfig&,
                                                 std::span<const std::string_view>, std::size_t) {
  throw Error(Code::unavailable, "this build has no CUDA");
}

GpuFunction copy_gpu_function() { return nullptr; }

}  // namespace sluice::compute
