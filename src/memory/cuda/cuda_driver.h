// The driver's virtual memory functions, found at run time: the program links no
// libcuda, so that it starts on machines without one. CUDA builds only.
#pragma once

#include <cuda.h>

namespace sluice::memory {

struct CudaDriver {
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuDeviceGetAttribute) attribute;
  decltype(&cuGetErrorString) error_string;

  // Throws unavailable when the driver lacks one of them.
  static const CudaDriver& get();

  // Throws exhausted when there is no memory, internal otherwise.
  void check(CUresult result, const char* what) const;
  // For clean-up: reports the error and continues.
  void report(CUresult result, const char* what) const noexcept;
};

}  // namespace sluice::memory
