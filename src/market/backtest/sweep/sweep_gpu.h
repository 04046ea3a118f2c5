// Parts of the sweep's CUDA side; exists in CUDA builds only.
#pragma once

#include "compute/lane.h"
#include "compute/operation.h"
#include "market/backtest/engine/trading.h"

namespace sluice::market {

struct SweepDevice;

// Running sums, rows, volatilities and the tables of stretches of `tickers` tickers.
void queue_sweep_tables(const SweepDevice& d, std::size_t tickers, const Trading& trading,
                        compute::Lane& lane);
void sweep_gpu(const compute::Call& call, compute::Lane& lane);

}  // namespace sluice::market
