#include "market/backtest/sweep/sweep_gpu.h"
#include "market/backtest/sweep/sweep_kernels.h"

namespace sluice::market {

SweepOnGpu sweep_on_gpu() { return sweep_gpu; }

}  // namespace sluice::market
