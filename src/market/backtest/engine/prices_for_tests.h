// Made-up prices for tests and benchmarks of backtests.
#pragma once

#include <cstdint>

#include "market/backtest/engine/history.h"

namespace sluice::market {

// A random walk of days with gaps between close and open, and some days without any move.
PriceHistory random_history(std::size_t bars, std::uint64_t seed, double volatility = 0.02);

}  // namespace sluice::market
