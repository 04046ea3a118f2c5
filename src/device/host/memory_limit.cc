#include "device/host/memory_limit.h"

namespace sluice::device {

// Sets no soft limit: the driver may end what is above one, and memory below one is kept from
// others even when it is not used.
std::string limit_memory(const Nvml& nvml, const std::string& uuid, const std::string& group,
                         std::uint64_t bytes) {
  using nvml::Return;
  const auto gpu = nvml.by_uuid(uuid);
  if (!gpu) return uuid + ": " + nvml::describe(gpu.code);
  const auto set = nvml.set_memory_limits(gpu.value, group, 0, bytes);
  if (set == Return::function_not_found)
    return "this driver keeps no memory limits (r615 and later do)";
  if (set != Return::success)
    return "the driver takes no limit for " + group + ": " + nvml::describe(set);
  const auto stands = nvml.memory_limits(gpu.value, group);
  if (!stands) return "the limit cannot be read back: " + std::string(nvml::describe(stands.code));
  if (stands.value.hard > bytes)
    return "the driver says " + std::to_string(stands.value.hard) + " bytes, not " +
           std::to_string(bytes);
  return "";
}

}  // namespace sluice::device
