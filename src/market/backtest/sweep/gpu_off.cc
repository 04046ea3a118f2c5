#include "market/backtest/sweep/sweep_kernels.h"

namespace sluice::market {

SweepOnGpu sweep_on_gpu() { return nullptr; }

}  // namespace sluice::market
