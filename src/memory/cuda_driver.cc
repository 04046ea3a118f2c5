#include "memory/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"
#include "base/log.h"
#include "device/check.h"

namespace sluice::memory {

namespace {

template <class Function>
void find(Function& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  device::check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (found == nullptr)
    throw Error(Code::unavailable,
                std::string("the driver has no ") + name + "; it is too old for mapped GPU memory");
  function = reinterpret_cast<Function>(found);
}

CudaDriver find_all() {
  CudaDriver driver{};
  find(driver.reserve, "cuMemAddressReserve");
  find(driver.unreserve, "cuMemAddressFree");
  find(driver.create, "cuMemCreate");
  find(driver.release, "cuMemRelease");
  find(driver.map, "cuMemMap");
  find(driver.unmap, "cuMemUnmap");
  find(driver.set_access, "cuMemSetAccess");
  find(driver.granularity, "cuMemGetAllocationGranularity");
  find(driver.attribute, "cuDeviceGetAttribute");
  find(driver.error_string, "cuGetErrorString");
  return driver;
}

std::string describe(const CudaDriver& driver, CUresult result, const char* what) {
  const char* text = nullptr;
  driver.error_string(result, &text);
  return std::string(what) + ": " + (text == nullptr ? "unknown error" : text);
}

}  // namespace

const CudaDriver& CudaDriver::get() {
  static const CudaDriver driver = find_all();
  return driver;
}

void CudaDriver::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  throw Error(result == CUDA_ERROR_OUT_OF_MEMORY ? Code::exhausted : Code::internal,
              describe(*this, result, what));
}

void CudaDriver::report(CUresult result, const char* what) const noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  log::error("{}", describe(*this, result, what));
}

}  // namespace sluice::memory
