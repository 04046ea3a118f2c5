#include "compute/accelerator.h"
#include "compute/copy_gpu.h"

namespace sluice::compute {

std::unique_ptr<Accelerator> make_cuda_accelerator(const CudaOptions&) {
  throw Error(Code::unavailable, "this build has no CUDA");
}

GpuFunction copy_gpu_function() { return nullptr; }

}  // namespace sluice::compute
