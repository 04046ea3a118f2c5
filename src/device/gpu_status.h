// Classifies status codes of CUDA, cuBLASLt, cuDNN and NVRTC by their effect on the call and on the
// GPU. This is the only place that decides it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sluice::device {

enum class GpuLibrary { cuda, cublaslt, cudnn, nvrtc };  // cuda: the runtime's and the driver's

enum class GpuStatus {
  ok,
  refused,        // the call was wrong, or cannot be done here; the GPU is well
  out_of_memory,  // of the GPU or the host; the same call may work later
  transient,      // it failed this time; it may work the next time, and says nothing about others
  lost,           // the GPU failed, or CUDA in this process did
};
std::string_view to_string(GpuStatus status) noexcept;

// Some codes say only that something failed (EXECUTION_FAILED, INTERNAL_ERROR, unknown numbers).
// For these, `ask_device` is called, which returns CUDA's present status of the device: a fault
// there is the cause.
GpuStatus classify(GpuLibrary library, int code, const std::function<int()>& ask_device);

// Its code: unavailable where refused, exhausted where out of memory, internal otherwise.
class GpuError : public Error {
 public:
  GpuError(GpuStatus status, const std::string& message,
           SourceLocation where = SourceLocation::here());
  GpuStatus status() const noexcept { return status_; }

 private:
  GpuStatus status_;
};

// Classifies any error that a call on the GPU threw. One that is no GpuError is judged by its code,
// where internal is a loss.
GpuStatus gpu_status_of(const Error& error) noexcept;

}  // namespace sluice::device
