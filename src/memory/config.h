// Settings of the [memory] section.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "memory/pool.h"

namespace sluice::memory {

// The pools there are, in the order in which they are shown.
inline constexpr std::string_view kPoolNames[] = {"default", "workspace", "persistent", "shared"};

struct MemoryConfig {
  std::map<std::string, std::string> strategy;
  std::map<std::string, double> initial_mb, growth_mb, ceiling_gb;
  double growth_alert_mb_per_min = 60;
  double growth_window_s = 600;

  static constexpr auto fields() {
    using C = MemoryConfig;
    return std::tuple{
        Field{"strategy", &C::strategy,
              "how a pool places blocks; default and persistent best_fit, workspace first_fit, "
              "shared slab"}
            .one_of("first_fit|best_fit|buddy|slab"),
        Field{"initial_mb", &C::initial_mb, "MiB that a pool holds from the start; none"}.range(
            0, 1 << 20),
        Field{"growth_mb", &C::growth_mb, "MiB that a pool grows by at least; 16"}.range(0.001,
                                                                                         1 << 20),
        Field{"ceiling_gb", &C::ceiling_gb, "GiB that a pool never holds more than; none"}.range(
            0.001, 1024),
        Field{"growth_alert_mb_per_min", &C::growth_alert_mb_per_min,
              "an owner whose memory grows by this many MiB a minute is reported"}
            .range(0.001, 1e9),
        Field{"growth_window_s", &C::growth_window_s, "time over which growth is judged"}.range(
            10, 86400),
    };
  }
  // A pool that does not exist; an initial size above the ceiling.
  void check_together(std::vector<std::string>& found) const;

  PoolOptions options(std::string_view pool) const;
};

}  // namespace sluice::memory
