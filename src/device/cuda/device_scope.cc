#include "device/cuda/device_scope.h"

namespace sluice::device {

DeviceScope::DeviceScope(DeviceId device, const DeviceCalls& calls)
    : calls_(calls), previous_{calls.current()} {
  if (device == previous_) return;
  const bool had_context = calls_.has_context(previous_.value);
  calls_.set(device.value);
  restores_ = had_context;
}

DeviceScope::~DeviceScope() {
  if (restores_) calls_.restore(previous_.value);
}

}  // namespace sluice::device
