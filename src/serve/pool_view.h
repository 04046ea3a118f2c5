// The memory pools of the server's GPU worker: as they are set, and as they are.
#pragma once

#include <vector>

#include "base/json.h"
#include "serve/market_service.h"
#include "watch/snapshot.h"

namespace sluice::serve {

// [{"name", "strategy", "growth_mb", "ceiling_gb", "live", …}]: every pool that the worker makes.
// Figures only while it lives; `strategy` and `ceiling_gb` are then what it reports itself.
Json pool_view(const memory::MemoryConfig& set, const std::vector<memory::PoolStatistics>& made);

// The memory of each pool as of `now`, for alerts.
std::vector<watch::OwnerMemory> pool_owners(const std::vector<memory::PoolStatistics>& made,
                                            Instant now);

}  // namespace sluice::serve
