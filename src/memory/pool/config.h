// Settings of the [memory] section.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "base/json.h"
#include "memory/pool/pool.h"

namespace sluice::memory {

// The pools there are, in the order in which they are shown.
inline constexpr std::string_view kPoolNames[] = {"default", "workspace", "persistent", "shared"};

struct MemoryConfig {
  std::map<std::string, std::string> strategy;
  std::map<std::string, double> initial_mb, growth_mb, ceiling_gb;

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
    };
  }
  // A pool that does not exist; an initial size above the ceiling.
  void check_together(std::vector<std::string>& found) const;

  PoolOptions options(std::string_view pool) const;
};

// From one process to another. Throws invalid_argument for what is none.
Json to_json(const MemoryConfig& config);
MemoryConfig memory_config_from(std::string_view text);

}  // namespace sluice::memory
