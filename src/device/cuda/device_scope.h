// The current device of a thread, for a while.
#pragma once

namespace sluice::device {

struct DeviceId {
  int value;
  friend bool operator==(DeviceId, DeviceId) = default;
};

// The CUDA calls that a DeviceScope uses.
struct DeviceCalls {
  int (*current)();         // this thread's
  void (*set)(int device);  // makes a context there where there is none
  bool (*has_context)(int device) noexcept;
  void (*restore)(int device) noexcept;
};
const DeviceCalls& cuda_device_calls();  // CUDA builds only

// Makes `device` current for this thread until the end of the scope. The one before is current
// again afterwards if it has a context: one that was only the default would get one by that, with
// hundreds of megabytes on a GPU that was not requested.
class DeviceScope {
 public:
  explicit DeviceScope(DeviceId device, const DeviceCalls& calls = cuda_device_calls());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const DeviceCalls& calls_;
  DeviceId previous_;
  bool restores_ = false;
};

}  // namespace sluice::device
