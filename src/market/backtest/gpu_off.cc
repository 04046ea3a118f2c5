#include "market/backtest/sweep_kernels.h"

namespace sluice::market {

SweepOnGpu sweep_on_gpu() { return nullptr; }

}  // namespace sluice::market
