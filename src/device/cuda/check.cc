#include "device/cuda/check.h"

#include <cstdio>
#include <string>

namespace sluice::device {

void check(cudaError_t status, SourceLocation where) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  check(GpuLibrary::cuda, static_cast<int>(status),
        std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status), where);
}

void check(GpuLibrary library, int code, const std::string& what, SourceLocation where) {
  if (code == 0) return;
  throw GpuError(classify(library, code, [] { return device_state(); }), what, where);
}

int device_state() noexcept {
  if (const cudaError_t pending = cudaGetLastError(); !survivable(pending))
    return static_cast<int>(pending);
  int device = 0;
  const bool used = cudaGetDevice(&device) == cudaSuccess &&
                    cuda_device_calls().has_context(device);  // to ask would make one
  const cudaError_t now = used ? cudaDeviceSynchronize() : cudaSuccess;
  (void)cudaGetLastError();
  return static_cast<int>(now);
}

int device_state(DeviceId device) noexcept {
  try {
    const DeviceScope on(device);
    return device_state();
  } catch (const Error&) {  // it cannot be made current; a fault that ended CUDA stays
    return static_cast<int>(cudaGetLastError());
  }
}

bool survivable(cudaError_t status) noexcept {
  const int code = static_cast<int>(status);
  return classify(GpuLibrary::cuda, code, [code] { return code; }) != GpuStatus::lost;
}

void check_in_destructor(cudaError_t status, SourceLocation where) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  (void)cudaGetLastError();
  std::fprintf(stderr, "%s:%d: %s\n", where.file, where.line, cudaGetErrorName(status));
}

}  // namespace sluice::device
