// The public headers of the market module, for programs that link sluice_market.
//
//   #include <sluice/market.h>
//
//   auto compute = sluice::compute::make_compute("auto");
//   const auto plan = sluice::market::indicator("RSI").plan({{"timeperiod", 14}});
//   sluice::market::run(*compute, plan, {close}, {rsi});
#pragma once

#include "compute/compute.h"
#include "market/backtest/report/report.h"
#include "market/backtest/sweep/walk_forward.h"
#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/indicators/run_series.h"
#include "market/indicators/stream.h"
#include "market/input/csv.h"
#include "market/montecarlo/asian.h"
#include "market/montecarlo/heston.h"
#include "market/montecarlo/paths.h"
#include "market/options/american.h"
#include "market/options/binomial.h"
#include "market/options/black_scholes.h"
#include "market/portfolio/cvar.h"
#include "market/portfolio/portfolio.h"
#include "market/portfolio/risk_parity.h"
#include "market/request/request.h"
#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/simulated_tail.h"
#include "market/risk/tail.h"
