// What was calculated where, and the memory that requests hold, in Prometheus text.
#pragma once

#include <string>

#include "base/memory_budget.h"
#include "serve/market_desk.h"

namespace sluice::serve {

std::string compute_exposition(const MarketDesk::Figures& figures, const MemoryBudget& memory);

}  // namespace sluice::serve
