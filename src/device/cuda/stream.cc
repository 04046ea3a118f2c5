#include "device/cuda/stream.h"

#include <cuda.h>

#include "device/cuda/check.h"
#include "device/cuda/driver_function.h"

namespace sluice::device {

namespace {

// A driver function: every query of the runtime makes a context. Null where the driver is too old.
using PrimaryState = decltype(&cuDevicePrimaryCtxGetState);
PrimaryState primary_state() {
  static const PrimaryState found = []() -> PrimaryState {
    PrimaryState function = nullptr;
    try {
      find_in_driver(function, "cuDevicePrimaryCtxGetState");
    } catch (const Error&) {
    }
    return function;
  }();
  return found;
}

bool has_context(int device) noexcept {
  const PrimaryState state = primary_state();
  unsigned flags = 0;
  int active = 1;
  if (state == nullptr) return true;
  const CUresult result = state(device, &flags, &active);
  if (result == CUDA_ERROR_NOT_INITIALIZED) return false;  // nobody has one yet
  return result != CUDA_SUCCESS || active != 0;
}

constexpr DeviceCalls kCuda{
    .current =
        [] {
          int device = 0;
          check(cudaGetDevice(&device));
          return device;
        },
    .set = [](int device) { check(cudaSetDevice(device)); },
    .has_context = has_context,
    .restore = [](int device) noexcept { check_in_destructor(cudaSetDevice(device)); }};

}  // namespace

const DeviceCalls& cuda_device_calls() { return kCuda; }

Stream::Stream(DeviceId device) : device_(device) {
  const DeviceScope on(device);
  cudaStream_t raw = nullptr;
  check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
  handle_.reset(raw);
}

void Stream::wait() const { check(cudaStreamSynchronize(get())); }

void Stream::Destroy::operator()(cudaStream_t stream) const noexcept {
  check_in_destructor(cudaStreamDestroy(stream));
}

}  // namespace sluice::device
