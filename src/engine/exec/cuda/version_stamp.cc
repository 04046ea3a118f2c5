#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <fstream>

#include "device/cuda/check.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/cuda/cudnn/cudnn_library.h"
#include "engine/exec/cuda/nodes/cublaslt_gemm.h"

namespace sluice::engine {
namespace {

// The kernel module's; empty where it does not tell.
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
  cudaDeviceProp facts{};
  device::check(cudaGetDeviceProperties(&facts, context.options.device));
  int cuda = 0;  // 13000
  device::check(cudaDriverGetVersion(&cuda));
  const std::string driver = driver_version();
  return {
      fmt::format("{}, compute capability {}.{}, {} multiprocessors", facts.name,
                  context.capability() / 10, context.capability() % 10, context.multiprocessors()),
      fmt::format("driver {}(CUDA {}.{}), cuBLASLt {}, cuDNN {}{}",
                  driver.empty() ? "" : driver + " ", cuda / 1000, cuda % 1000 / 10,
                  or_none(cublaslt_version(context)),
                  or_none(context.part<cuda::dnn::Library>().version),
                  context.options.split_sums ? ", sums may be split" : "")};
}

}  // namespace sluice::engine
