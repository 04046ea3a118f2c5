// The indicator values that the sets of a sweep compare, for one ticker on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "market/backtest/sweep/set_code.h"

namespace sluice::market {

// One row for each spec, NaN in the warm-up. Averages are of running sums kept to twice the
// digits, so that they are right to the last digits however long the series is.
class IndicatorRows {
 public:
  void compute(std::span<const RowSpec> specs, std::span<const double> closes);

  // May be read from [-1] on (a NaN) and up to full words of 64 bars.
  const double* row(std::int32_t i) const {
    return values_.data() + static_cast<std::size_t>(i) * pitch_ + kBefore;
  }

 private:
  static constexpr std::size_t kBefore = 8;
  double* begin(std::size_t i) { return values_.data() + i * pitch_ + kBefore; }
  void sum_up(std::span<const double> closes);

  std::size_t pitch_ = 0;
  std::vector<double> values_;
  std::vector<double> high_, low_;  // running sums, and what they lost in rounding
};

// sqrt(periods_per_year) x deviation of the last `period` returns at each bar.
void yearly_volatility(const Trading& trading, std::span<const double> closes, double* out);

}  // namespace sluice::market
