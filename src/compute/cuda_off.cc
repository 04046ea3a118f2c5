#include "compute/accelerator.h"

namespace sluice::compute {

std::unique_ptr<Accelerator> make_cuda_accelerator(const CudaOptions&) {
  throw Error(Code::unavailable, "this build has no CUDA");
}

}  // namespace sluice::compute
