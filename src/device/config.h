// Settings of the [gpu] section and of [[autoscaling]], and what a gpu_type profile
// fills in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "base/duration.h"
#include "device/catalogue.h"
#include "device/gpu.h"

namespace sluice::device {

// Checks and readers of single texts; "" or an empty cause when they are right.
std::string gpu_type_cause(std::string_view text);
std::string device_cause(std::string_view text);
std::string container_devices_cause(std::string_view text);
std::string capability_cause(std::string_view text);
// CUDA's rules: "0,1" or UUIDs; "", "-1" and "NoDevFiles" are no device at all.
std::string read_cuda_visible_devices(std::string_view text, std::string& cause);

struct GpuConfig {
  bool enabled = true;
  std::string gpu_type;
  std::vector<Ident> devices = {{"all"}};  // empty: none
  double memory_gb = 0;
  double memory_fraction = 0.9;
  std::map<std::string, double> memory_allocation;
  std::int64_t batch_size = 32;
  std::map<std::string, std::int64_t> batch_sizes;
  std::string precision = "auto";
  bool memory_pooling = true;
  std::map<std::string, std::string> cache;
  bool launch_blocking = false;
  std::vector<Ident> container_devices;
  std::vector<std::string> driver_capabilities;

  static constexpr auto fields() {
    using C = GpuConfig;
    return std::tuple{
        Field{"enabled", &C::enabled, "use GPUs; false runs everything on the CPU"}.env(
            "GPU_ENABLED"),
        Field{"gpu_type", &C::gpu_type,
              "card whose profile fills memory, batch and precision defaults: a100-80, V100, P4"}
            .check(gpu_type_cause),
        Field{"devices", &C::devices,
              "GPUs to use, by index or UUID; [\"all\"] takes every one, [] none"}
            .check(device_cause)
            .env("CUDA_VISIBLE_DEVICES", read_cuda_visible_devices),
        Field{"memory_gb", &C::memory_gb, "memory of one card to plan with; 0 asks the card"}.range(
            0, 4096),
        Field{"memory_fraction", &C::memory_fraction, "share of a card's memory that may be used"}
            .range(0.01, 1)
            .env("GPU_MEMORY_FRACTION"),
        Field{"memory_allocation", &C::memory_allocation, "GB of GPU memory per agent"}.range(0.001,
                                                                                              4096),
        Field{"batch_size", &C::batch_size, "batch of an agent that batch_sizes does not name"}
            .range(1, 65536)
            .live(),
        Field{"batch_sizes", &C::batch_sizes, "batch size per agent"}
            .range(1, 65536)
            .env_each("GPU_BATCH_SIZE_*")
            .live(),
        Field{"precision", &C::precision,
              "number format of inference; auto asks the card, mixed keeps sums in fp32"}
            .one_of("auto|mixed|fp32|tf32|bf16|fp16|fp8|int8"),
        Field{"memory_pooling", &C::memory_pooling, "keep freed GPU memory for the next batch"},
        Field{"cache", &C::cache, "folder of an agent's models"}.env_each("*_GPU_CACHE"),
        Field{"launch_blocking", &C::launch_blocking,
              "wait after every kernel, so that an error names it; slow"}
            .env("CUDA_LAUNCH_BLOCKING"),
        Field{"container_devices", &C::container_devices,
              "GPUs that the container runtime passes in: all, none, void or a list"}
            .check(container_devices_cause)
            .env("NVIDIA_VISIBLE_DEVICES"),
        Field{"driver_capabilities", &C::driver_capabilities,
              "driver parts that the container runtime passes in"}
            .check(capability_cause)
            .env("NVIDIA_DRIVER_CAPABILITIES"),
    };
  }
  void check_together(std::vector<std::string>& found) const;
};

// When to start and stop instances; one [[autoscaling]] table each.
struct AutoscalingConfig {
  std::string metric = "gpu_utilization";
  double target = 80;
  std::int64_t min_instances = 1;
  std::int64_t max_instances = 1;
  Duration scale_up_cooldown{300};
  Duration scale_down_cooldown{600};

  static constexpr auto fields() {
    using C = AutoscalingConfig;
    return std::tuple{
        Field{"metric", &C::metric, "what is held at the target"}.one_of(
            "gpu_utilization|memory_utilization|queue_depth|request_rate|latency_ms"),
        Field{"target", &C::target, "value to hold; of a utilisation in percent"}.range(0.001, 1e9),
        Field{"min_instances", &C::min_instances, "never fewer"}.range(0, 10000),
        Field{"max_instances", &C::max_instances, "never more"}.range(1, 10000),
        Field{"scale_up_cooldown", &C::scale_up_cooldown, "minimum time between two steps up"}
            .range(0, 86400),
        Field{"scale_down_cooldown", &C::scale_down_cooldown, "minimum time between two steps down"}
            .range(0, 86400),
    };
  }
  void check_together(std::vector<std::string>& found) const;
};

// Defaults of a profile, for settings that nothing else sets.
struct ProfileDefaults {
  std::string name;  // the card's key, "a100-80"
  double memory_gb;
  std::int64_t batch_size;
  std::map<std::string, std::int64_t> batch_sizes;
  std::map<std::string, double> memory_allocation;
  std::string precision;
};

// The default batch of each of the three agents of a news pipeline, and its memory.
struct AgentDefault {
  std::string_view name;
  double memory_gb;
  std::int64_t batch;
};
std::optional<AgentDefault> agent_default(std::string_view name) noexcept;

// Defaults for a card: batch sizes by memory (4, 8, 12 and 24 GB rows), the memory of the three
// agents, scaled down together on a card that is too small for them, and the precision that is
// fast on the card; a P4 never gets fp16.
ProfileDefaults profile_defaults(const Card& card, double memory_fraction);

// Returns nothing when gpu_type is empty or unknown.
std::optional<ProfileDefaults> profile_of(const GpuConfig& config);

// Warnings about `config` on this machine: a gpu_type that
// contradicts the card found (names both), an agent that asks for more than a card
// has, a precision the card is slow at. Empty when all agrees.
std::vector<std::string> profile_warnings(const GpuConfig& config, const Inventory& inventory);

// The subset of these warnings that needs no look at the machine.
std::vector<std::string> profile_warnings(const GpuConfig& config);

}  // namespace sluice::device
