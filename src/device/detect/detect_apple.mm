#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <fmt/core.h>

#include "device/detect/detect_apple.h"

namespace sluice::device {

namespace {

Gpu describe(id<MTLDevice> device) {
  Gpu gpu{};
  gpu.vendor = Vendor::apple;
  gpu.name = device.name.UTF8String;
  gpu.uuid = fmt::format("APPLE-{:016x}", device.registryID);
  gpu.memory_total = device.recommendedMaxWorkingSetSize;
  const auto version = NSProcessInfo.processInfo.operatingSystemVersion;
  gpu.driver_version = fmt::format("macOS {}.{}.{}", version.majorVersion, version.minorVersion,
                                   version.patchVersion);
  // Every Apple-designed GPU runs fp16 at least as fast as fp32.
  if ([device supportsFamily:MTLGPUFamilyApple7]) {
    gpu.recommended_precision = Precision::fp16;
    gpu.recommended_because = "fp16 is at least as fast as fp32 and halves the memory";
  } else {
    gpu.recommended_precision = Precision::fp32;
    gpu.recommended_because = "an older GPU: fp32 is always right";
  }
  return gpu;
}

}  // namespace

Found detect_apple() {
  Found found;
  @autoreleasepool {
    for (id<MTLDevice> device in MTLCopyAllDevices()) found.gpus.push_back(describe(device));
  }
  if (found.gpus.empty()) found.notes.push_back("Apple: Metal lists no device");
  return found;
}

}  // namespace sluice::device
