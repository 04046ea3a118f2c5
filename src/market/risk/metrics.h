// Risk and performance of many series of returns or prices, each read once.
#pragma once

#include <cstdint>
#include <span>

#include "compute/compute.h"

namespace sluice::market {

enum class RiskInput : std::int32_t { returns, prices };  // of prices, p[t] / p[t-1] - 1

// Conventions: those of empyrical and vectorbt, unless an option says otherwise.
struct RiskOptions {
  RiskInput input = RiskInput::returns;
  double periods_per_year = 252;
  double risk_free = 0;        // per period; Sharpe and alpha
  double required_return = 0;  // per period; Sortino
  double ddof = 1;             // volatility divides by n - ddof
  bool bias_corrected = true;  // skew and kurtosis as pandas has them; false: as SciPy
  bool find_recovery = true;   // which reads a part of the series again on a GPU
};

// A missing value (NaN) counts nowhere, and as no change of the wealth. What cannot be
// computed is NaN: beta without a benchmark, Calmar without a drawdown, skew of a constant.
struct RiskMetrics {
  double count;               // of returns that are not missing
  double total_return;        // product of (1 + r), less 1
  double annual_return;       // (1 + total_return)^(periods_per_year / count) - 1
  double mean;                // per period
  double volatility;          // a year
  double downside_deviation;  // a year: root of mean min(r - required, 0)^2 over all returns
  double sharpe;              // (mean - risk_free) / deviation, times root of the periods
  double sortino;             // (mean - required), a year, over downside_deviation
  double calmar;              // annual_return / |max_drawdown|
  double max_drawdown;        // lowest wealth / highest wealth before - 1: 0 or below
  double skew, kurtosis;      // kurtosis: in excess of the normal distribution's
  double alpha;               // (1 + alpha per period)^periods_per_year - 1
  double beta;                // covariance with the benchmark / its variance, over pairs
  std::int64_t peak, trough;  // bars of the deepest drawdown; -1: before the first return
  std::int64_t recovery;  // first bar after it as high as its peak; -1: not yet, or not requested
};

// `values`: one series after another, `bars` each; the results one per series.
// `benchmark` has `bars` values of the same kind or none. CPU and GPU agree within 1e-12
// relative (skew and kurtosis: 1e-10), and in the bars unless two falls are equally deep.
// Throws invalid_argument for lengths that do not fit and options out of their range.
compute::Outcome risk_metrics(
    compute::Compute& compute, std::span<const double> values, std::size_t bars,
    std::span<const double> benchmark, std::span<RiskMetrics> out, const RiskOptions& options = {},
    compute::DevicePreference device = compute::DevicePreference::automatic);

enum class ReturnKind { simple, log };

// p[t] / p[t-1] - 1 or its logarithm, per series of `bars`; NaN for the first bar, and
// where either price is missing.
void returns_of(compute::Workers& workers, std::span<const double> prices, std::size_t bars,
                ReturnKind kind, std::span<double> out);

const compute::Operation& risk_operation();

}  // namespace sluice::market
