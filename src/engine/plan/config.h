// Settings of the [engine] section, and where they say that plans are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <tuple>

#include "base/config.h"

namespace sluice::engine {

// A folder in which plans are kept by themselves, within a size.
struct PlanCache {
  std::filesystem::path folder{};  // empty: none are kept
  std::uint64_t most_bytes = std::uint64_t{10} << 30;
};

struct EngineConfig {
  bool plans = true;
  double plans_gb = 10;

  static constexpr auto fields() {
    using C = EngineConfig;
    return std::tuple{
        Field{"plans", &C::plans,
              "keep what was compiled of a model in the cache folder, and start from it next time"},
        Field{"plans_gb", &C::plans_gb,
              "GiB that kept plans take at most; those unused for longest go"}
            .range(0.001, 1 << 20),
    };
  }
};

}  // namespace sluice::engine
