// One call of the sweep's operation, with the arrays it is made of.
#pragma once

#include <span>
#include <vector>

#include "compute/operation.h"
#include "market/backtest/sweep/set_code.h"
#include "market/backtest/sweep/sweep.h"
#include "market/backtest/sweep/sweep_kernels.h"

namespace sluice::market {

// Returns whether AllInAccount agrees with run_backtest() to 1e-9 on the first `end` closes. It
// does not where one change is so large that the running sums lose the digits of the others.
bool fits_running_sums(const PriceHistory& history, std::int64_t end);

class SweepCall {
 public:
  // Prices must have passed validate(). Results go to out[ticker x sets + set]. `all_in` trades by
  // AllInAccount, which must support the options and fit all tickers.
  SweepCall(std::span<const PriceHistory> histories, const SweepOptions& options,
            std::span<const ParameterSet> sets, bool all_in, Tally* out);
  SweepCall(const SweepCall&) = delete;
  SweepCall& operator=(const SweepCall&) = delete;

  const compute::Call& call() const noexcept { return call_; }
  const std::vector<Span>& spans() const noexcept { return spans_; }
  double bars_traded() const noexcept;  // of all tickers

 private:
  void copy_prices(std::span<const PriceHistory> histories);

  std::vector<double> prices_[4];
  std::vector<Span> spans_;
  std::size_t bars_ = 0;
  SweepPlan plan_;
  SweepParameters parameters_{};
  compute::Call call_;
};

}  // namespace sluice::market
