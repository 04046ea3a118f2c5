#include "market/risk/gpu.h"
#include "market/risk/gpu_kernels.h"

namespace sluice::market {

RiskOnGpu risk_on_gpu() {
  return {.metrics = metrics_gpu, .tail = tail_gpu, .covariance = covariance_gpu};
}

}  // namespace sluice::market
