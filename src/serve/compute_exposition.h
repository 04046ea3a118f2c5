// Calculations by device, and the memory that requests hold, in Prometheus text.
#pragma once

#include <string>

#include "base/memory_budget.h"
#include "serve/market_service.h"

namespace sluice::serve {

std::string compute_exposition(const MarketService::Stats& stats, const MemoryBudget& memory);

}  // namespace sluice::serve
