#include "market/options/gpu.h"
#include "market/options/gpu_kernels.h"

namespace sluice::market {

OptionsOnGpu options_on_gpu() {
  return {.black_scholes_double = black_scholes_gpu_double,
          .black_scholes_float = black_scholes_gpu_float,
          .greeks_double = greeks_gpu_double,
          .greeks_float = greeks_gpu_float,
          .implied_volatility = implied_volatility_gpu,
          .binomial = binomial_gpu,
          .american = american_gpu};
}

}  // namespace sluice::market
