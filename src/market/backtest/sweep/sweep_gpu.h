// Parts of the sweep's CUDA side; exists in CUDA builds only.
#pragma once

#include "compute/launch_context.h"
#include "compute/operation.h"
#include "market/backtest/engine/trading.h"

namespace sluice::market {

struct SweepDevice;

// Queues the kernels for running sums, indicator rows, volatilities and all-in tables of `tickers`
// tickers.
void queue_sweep_tables(const SweepDevice& d, std::size_t tickers, const Trading& trading,
                        compute::LaunchContext& context);
void sweep_gpu(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
