#include "serve/pool_view.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace sluice::serve {

namespace {

double gb(std::size_t bytes) { return std::round(static_cast<double>(bytes) / kGiB * 1e6) / 1e6; }

void put_ceiling(Json& json, std::size_t bytes) {
  json["ceiling_gb"] = bytes == static_cast<std::size_t>(-1) ? Json() : Json(gb(bytes));
}

void put_stats(Json& json, const memory::PoolStatistics& pool) {
  json["strategy"] = to_string(pool.strategy);
  put_ceiling(json, pool.ceiling);
  json["used_gb"] = gb(pool.used);
  json["held_gb"] = gb(pool.committed);
  json["peak_held_gb"] = gb(pool.peak_committed);
  json["largest_free_gb"] = gb(pool.largest_free);
  json["allocations"] = pool.allocations;
  json["refused"] = pool.failures;
  json["efficiency"] = pool.efficiency;
  json["external_fragmentation"] = pool.external_fragmentation;
}

}  // namespace

Json pool_view(const memory::MemoryConfig& set, const std::vector<memory::PoolStatistics>& made) {
  Json all = Json::array();
  for (const auto name : compute::kAcceleratorPools) {
    const auto options = set.options(name);
    const auto live = std::ranges::find(made, name, &memory::PoolStatistics::name);
    Json json{{"name", name},
              {"strategy", to_string(options.strategy)},
              {"initial_mb", static_cast<double>(options.initial) / kMiB},
              {"growth_mb", static_cast<double>(options.growth) / kMiB},
              {"live", live != made.end()}};
    put_ceiling(json, options.ceiling);
    if (live != made.end()) put_stats(json, *live);
    all.push_back(std::move(json));
  }
  return all;
}

std::vector<watch::OwnerMemory> pool_owners(const std::vector<memory::PoolStatistics>& made,
                                            Instant now) {
  std::vector<watch::OwnerMemory> owners;
  for (const auto& pool : made)
    owners.push_back({watch::OwnerMemory::Kind::pool,
                      "pool-" + pool.name,
                      pool.name,
                      "memory pool " + pool.name,
                      {static_cast<double>(pool.committed), now},
                      pool.ceiling == static_cast<std::size_t>(-1) ? 0 : pool.ceiling});
  return owners;
}

}  // namespace sluice::serve
