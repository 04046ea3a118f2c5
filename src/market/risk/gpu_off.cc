#include "market/risk/gpu.h"

namespace sluice::market {

RiskOnGpu risk_on_gpu() { return {}; }

}  // namespace sluice::market
