// Pools of a GPU's memory, for calculations and for models.
//
//   const std::shared_ptr<memory::Pools> pools = make_device_pools(0, settings.memory, {}, lease);
//   cuda::Options options{.memory = {pools, &pools->get("default")}};
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "memory/pool/pools.h"

namespace sluice::compute {

// Made by the settings, `names` of them (none: all); together they take at most `max_bytes` bytes,
// such as a lease promises. `device` is CUDA's number. Throws unavailable in a build without CUDA.
std::unique_ptr<memory::Pools> make_device_pools(int device, const memory::MemoryConfig& config,
                                                 std::span<const std::string_view> names,
                                                 std::size_t max_bytes);

}  // namespace sluice::compute
