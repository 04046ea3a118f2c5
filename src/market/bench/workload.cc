#include "market/bench/workload.h"

namespace sluice::market {
namespace {

constexpr auto kOneCore = Measured::on_one_core, kGpu = Measured::on_gpu;

constexpr BenchCase kBenchCases[] = {
    {{"ema_cached", "EMA, 32 x 1,000"}, cached_series, "EMA", kOneCore},
    {{"sma_cached", "SMA, 32 x 1,000"}, cached_series, "SMA", kOneCore},
    {{"rsi_cached", "RSI, 32 x 1,000"}, cached_series, "RSI", kOneCore},
    {{"bbands_cached", "Bollinger, 32 x 1,000"}, cached_series, "BBANDS", kOneCore},
    {{"ema", "EMA, 10,000 x 10,000"}, many_series, "EMA"},
    {{"sma", "SMA, 10,000 x 10,000"}, many_series, "SMA"},
    {{"rsi", "RSI, 10,000 x 10,000"}, many_series, "RSI"},
    {{"bbands", "Bollinger, 10,000 x 10,000"}, many_series, "BBANDS"},
    {{"macd", "MACD, 10,000 x 10,000"}, many_series, "MACD", kGpu},
    {{"wma", "WMA, 10,000 x 10,000"}, many_series, "WMA", kGpu},
    {{"roc", "ROC, 10,000 x 10,000"}, many_series, "ROC", kGpu},
    {{"stddev", "STDDEV, 10,000 x 10,000"}, many_series, "STDDEV", kGpu},
    {{"max", "MAX, 10,000 x 10,000"}, many_series, "MAX", kGpu},
    {{"stochrsi", "STOCHRSI, 10,000 x 10,000"}, many_series, "STOCHRSI", kGpu},
    {{"ema_long", "EMA, 1 x 100 M"}, one_series, "EMA"},
    {{"rsi_long", "RSI, 1 x 100 M"}, one_series, "RSI"},
    {{"sma_long", "SMA, 1 x 100 M"}, one_series, "SMA", kGpu},
    {{"bbands_long", "Bollinger, 1 x 100 M"}, one_series, "BBANDS", kGpu},
    {{"macd_long", "MACD, 1 x 100 M"}, one_series, "MACD", kGpu},
    {{"black_scholes", "Black-Scholes, call and put"}, black_scholes_load, "double"},
    {{"black_scholes_float", "Black-Scholes, float"}, black_scholes_load, "float"},
    {{"american_binomial", "American, 1,024-step tree"}, binomial_load},
    {{"american_fast", "American, fixed point, fast"}, american_load, "fast"},
    {{"american_standard", "American, fixed point"}, american_load, "standard"},
    {{"asian", "Asian Monte Carlo"}, asian_load, "plain"},
    {{"asian_antithetic", "Asian, antithetic paths"}, asian_load, "antithetic"},
    {{"risk", "risk metrics"}, metrics_load, "many"},
    {{"risk_recovery", "risk metrics with recovery"}, metrics_load, "recovery"},
    {{"risk_long", "risk metrics, one long series"}, metrics_load, "long"},
    {{"var_cvar", "VaR and CVaR"}, tail_load, "many"},
    {{"var_cvar_long", "VaR and CVaR, long series"}, tail_load, "long"},
    {{"covariance", "covariance, 500 series"}, covariance_load, "few"},
    {{"covariance_large", "covariance, many series"}, covariance_load, "many"},
    {{"backtest", "backtest, moving-average cross"}, backtest_load, "sma"},
    {{"backtest_host", "backtest, host to host"},
     backtest_load,
     "sma",
     Measured::from_host_to_host_on_gpu},
    {{"backtest_ema", "backtest, exponential averages"}, backtest_load, "ema"},
    {{"backtest_stops", "backtest, long and short with stops"}, backtest_load, "stops"},
};

}  // namespace

std::span<const BenchCase> bench_cases() { return kBenchCases; }

double uniform(std::uint64_t i) { return static_cast<double>(device::mix(i) >> 11) * 0x1p-53; }

std::vector<double> draw(std::size_t count, double low, double high, std::uint64_t seed) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = low + (high - low) * uniform(seed << 40 | i);
  return values;
}

}  // namespace sluice::market
