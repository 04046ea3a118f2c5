#include "memory/cuda/cuda_driver.h"

#include <string>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/driver_function.h"

namespace sluice::memory {

namespace {

CudaDriver find_all() {
  CudaDriver driver{};
  device::find_in_driver(driver.reserve, "cuMemAddressReserve");
  device::find_in_driver(driver.unreserve, "cuMemAddressFree");
  device::find_in_driver(driver.create, "cuMemCreate");
  device::find_in_driver(driver.release, "cuMemRelease");
  device::find_in_driver(driver.map, "cuMemMap");
  device::find_in_driver(driver.unmap, "cuMemUnmap");
  device::find_in_driver(driver.set_access, "cuMemSetAccess");
  device::find_in_driver(driver.granularity, "cuMemGetAllocationGranularity");
  device::find_in_driver(driver.attribute, "cuDeviceGetAttribute");
  device::find_in_driver(driver.error_string, "cuGetErrorString");
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
  device::check(device::GpuLibrary::cuda, static_cast<int>(result), describe(*this, result, what));
}

void CudaDriver::report(CUresult result, const char* what) const noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  log::error("{}", describe(*this, result, what));
}

}  // namespace sluice::memory
