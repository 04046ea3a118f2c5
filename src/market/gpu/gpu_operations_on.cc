#include "market/gpu/gpu_operations.h"

namespace sluice::market {

GpuOperations gpu_operations() {
  return {.indicators_double = indicators_gpu_double,
          .indicators_float = indicators_gpu_float,
          .black_scholes_double = black_scholes_gpu_double,
          .black_scholes_float = black_scholes_gpu_float,
          .greeks_double = greeks_gpu_double,
          .greeks_float = greeks_gpu_float,
          .implied_volatility = implied_volatility_gpu,
          .binomial = binomial_gpu,
          .american = american_gpu,
          .asian = asian_gpu,
          .paths = paths_gpu,
          .metrics = metrics_gpu,
          .tail = tail_gpu,
          .covariance = covariance_gpu,
          .sweep = sweep_gpu,
          .curand_asian = curand_asian_gpu};
}

}  // namespace sluice::market
