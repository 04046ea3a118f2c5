// Status codes of CUDA and its libraries become sluice::Error. Included by device/ and .cu files
// only.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/source_location.h"
#include "device/cuda/device_scope.h"
#include "device/gpu_status.h"

namespace sluice::device {

// Throws GpuError, with the caller's file and line. Clears the runtime's pending error, so the next
// call does not report it again.
void check(cudaError_t status, SourceLocation where = SourceLocation::here());
// The same for a code of another library, or of the driver; `what` names the call and the code.
void check(GpuLibrary library, int code, const std::string& what,
           SourceLocation where = SourceLocation::here());

// CUDA's status of this thread's device, or of another, once its work is done; well where nobody
// has used it. A device that has faulted answers with its fault.
int device_state() noexcept;
int device_state(DeviceId device) noexcept;

// Returns whether this process can go on using the device after it. After what a kernel has done
// (an address that is not there, a trap) or the hardware, every further call fails with the same.
bool survivable(cudaError_t status) noexcept;

// For destructors: reports the error and continues. A runtime that is already shutting
// down is not reported.
void check_in_destructor(cudaError_t status,
                         SourceLocation where = SourceLocation::here()) noexcept;

}  // namespace sluice::device
