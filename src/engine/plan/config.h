// The settings of the [engine] section, which configure the plan cache.
#pragma once

#include <tuple>

#include "base/config.h"
#include "engine/plan/plan_cache.h"

namespace sluice::engine {

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
