// The settings of the [engine] section and the plan cache they configure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tuple>

#include "base/config.h"

namespace sluice::engine {

// A folder in which plans are cached, with a size limit.
struct PlanCache {
  std::filesystem::path folder{};  // empty: plans are not cached
  std::uint64_t max_bytes = std::uint64_t{10} << 30;
};

struct EngineConfig {
  bool plans = true;
  double plans_gb = 10;

  static constexpr auto fields() {
    using C = EngineConfig;
    return std::tuple{
        Field{"plans", &C::plans,
              "cache compiled models (plans) on disk and load them at the next start"},
        Field{"plans_gb", &C::plans_gb,
              "maximum size of the plan cache in GiB; the least recently used plans are removed"}
            .range(0.001, 1 << 20),
    };
  }
};

}  // namespace sluice::engine
