// For a build without cuDNN's headers: other kernels take every convolution and GEMM.
#include "engine/exec/cuda/cudnn/cudnn_fusion.h"

namespace sluice::engine::cuda {

struct CudnnPlan::Impl {};

CudnnPlan::CudnnPlan(Context&, const CudnnFusion&) {
  throw Error(Code::unavailable, "this build has no support for cuDNN");
}
CudnnPlan::~CudnnPlan() = default;
std::size_t CudnnPlan::scratch() const noexcept { return 0; }
void CudnnPlan::run(const Pointers&, CUstream_st*) const {}
double CudnnPlan::us() const noexcept { return 0; }
const std::string& CudnnPlan::key() const noexcept {
  static const std::string kNone;
  return kNone;
}

std::string cudnn_version(Context&) { return {}; }
std::unique_ptr<CudnnPlan> plan_cudnn(Context&, const CudnnFusion&) { return nullptr; }

}  // namespace sluice::engine::cuda
