#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <fstream>

#include "device/cuda/check.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/cudnn/cudnn_fusion.h"
#include "engine/exec/cuda/nodes/cublaslt_gemm.h"

namespace sluice::engine {
namespace {

// The version of the kernel module; empty if it is not published.
std::string driver_version() {
  std::ifstream in("/sys/module/nvidia/version");
  std::string version;
  in >> version;
  return version;
}

std::string or_none(const std::string& version) { return version.empty() ? "none" : version; }

}  // namespace

CudaStamp cuda_stamp(cuda::Context& context) {
  const Lock lock(context.making);
  cudaDeviceProp properties{};
  device::check(cudaGetDeviceProperties(&properties, context.options.device));
  int cuda = 0;  // 13000
  device::check(cudaDriverGetVersion(&cuda));
  const std::string driver = driver_version();
  const int code = context.code_capability();
  return {
      fmt::format(
          "{}, compute capability {}.{}, {} multiprocessors{}", properties.name,
          context.capability() / 10, context.capability() % 10, context.multiprocessors(),
          code == context.capability() ? "" : fmt::format(", code of {}.{}", code / 10, code % 10)),
      fmt::format("driver {}(CUDA {}.{}), cuBLASLt {}, cuDNN {}{}",
                  driver.empty() ? "" : driver + " ", cuda / 1000, cuda % 1000 / 10,
                  or_none(cublaslt_version(context)), or_none(cudnn_version(context)),
                  context.options.split_k ? ", sums may be split" : "")};
}

}  // namespace sluice::engine
