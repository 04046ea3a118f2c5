#include "compute/device_pools.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "memory/cuda/cuda.h"

namespace sluice::compute {
namespace {

std::unique_ptr<memory::Arena> make_arena(int device, std::size_t addresses) {
  try {
    return memory::make_cuda_arena(device, addresses);
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    const device::DeviceScope on({device});
    std::size_t free = 0, total = 0;
    device::check(cudaMemGetInfo(&free, &total));
    return memory::make_cuda_fixed_arena(device, free / 2);
  }
}

}  // namespace

std::unique_ptr<memory::Pools> make_device_pools(int device, const memory::MemoryConfig& config,
                                                 std::span<const std::string_view> names,
                                                 std::size_t max_bytes) {
  memory::PoolsOptions options;
  options.make_arena = [device](std::string_view, std::size_t addresses) {
    return make_arena(device, addresses);
  };
  if (!names.empty()) options.names.assign(names.begin(), names.end());
  options.budget = max_bytes;
  return std::make_unique<memory::Pools>(config, std::move(options));
}

}  // namespace sluice::compute
