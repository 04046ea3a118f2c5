// A GPU that runs operations: in this process, in a worker process, or simulated by a test.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compute/operation.h"
#include "memory/pool/config.h"

namespace sluice::compute {

// The device failed in the middle of a call: what it had computed is lost, and it may be
// unusable from now on (why_not() says). Out of memory is not a fault.
class DeviceFault : public Error {
 public:
  explicit DeviceFault(const std::string& what,
                       ::sluice::SourceLocation where = ::sluice::SourceLocation::here())
      : Error(Code::internal, what, where) {}
};

// The device is healthy but cannot run this call, or not now: the CPU runs it.
class DeviceRefusal : public Error {
 public:
  explicit DeviceRefusal(const std::string& what,
                         ::sluice::SourceLocation where = ::sluice::SourceLocation::here())
      : Error(Code::unavailable, what, where) {}
};

// Seconds by phase of a call.
struct Taken {
  double copy_in = 0, compute = 0, copy_out = 0;
};

// Thread-safe.
class Accelerator {
 public:
  virtual ~Accelerator() = default;

  virtual std::string name() const = 0;

  // Returns why no call should be sent to it now; empty when it is healthy. Fast: it never calls
  // the driver. A device that failed may recover by itself.
  virtual std::string why_not() = 0;

  // Runs operation.gpu with every array on the device and waits for it. Throws exhausted
  // when there is no memory for it, with nothing harmed, DeviceRefusal and DeviceFault.
  virtual Taken run(const Operation& operation, const Call& call) = 0;

  virtual std::size_t trim() noexcept = 0;  // cached memory; bytes

  // Its memory pools, as of the last call that ended. Fast.
  virtual std::vector<memory::PoolStatistics> pools() const { return {}; }

  // Memory on the device with a copy of `bytes` from the host (or anything, from null), for
  // arrays of Side::device; it ends with the last copy of the pointer, which must not
  // outlive this. Throws exhausted, and unavailable where arrays cannot stay on the device.
  virtual std::shared_ptr<void> keep(const void* /*data*/, std::size_t /*bytes*/) {
    throw Error(Code::unavailable, "arrays cannot stay on this device");
  }

  // Pins host memory that the arrays of many calls lie in: copies from it may be faster.
  // It must be unpinned before it is freed.
  virtual void pin(void* /*data*/, std::size_t /*bytes*/) noexcept {}
  virtual void unpin(void* /*data*/) noexcept {}
};

struct CudaOptions {
  int device = 0;                                     // CUDA's number
  std::size_t memory = static_cast<std::size_t>(-1);  // maximum bytes it may take: a lease's
  // Settings of its two pools: `workspace` holds a call's scratch memory, `persistent` serves
  // keep().
  memory::MemoryConfig pools{};
};
inline constexpr std::string_view kAcceleratorPools[] = {"workspace", "persistent"};

// The GPU in this process. A fault ends CUDA for the process, and so this accelerator for
// good: a server uses a worker process instead. Throws unavailable in a build without
// CUDA, and when there is no such device.
std::unique_ptr<Accelerator> make_cuda_accelerator(const CudaOptions& options);

}  // namespace sluice::compute
