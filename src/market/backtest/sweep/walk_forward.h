// Walk-forward: each window is traded with the parameters that did best before it, so that the
// reported results were never part of the data that the choice was made from.
#pragma once

#include "market/backtest/sweep/sweep.h"

namespace sluice::market {

struct WalkForwardOptions {
  SweepOptions sweep{};                               // its span and progress are not used
  std::int64_t in_sample = 756, out_of_sample = 126;  // bars to choose by, bars to trade
  bool anchored = false;  // choose by all bars so far, not by the last in_sample
  std::function<void(std::size_t done, std::size_t windows)> progress{};
};

struct WalkForwardWindow {
  Span chosen_by{}, traded{};
  ParameterSet parameters{};
  Metrics in_sample{}, out_of_sample{};  // means over the tickers
};

struct WalkForward {
  std::vector<WalkForwardWindow> windows;
  // All windows chained into one account over the mean of the tickers: at the
  // close before the first traded bar and of each bar from then on. Every window begins
  // without a position.
  std::vector<double> equity;
  std::vector<std::int32_t> days;  // of the first ticker; may be empty
  Metrics metrics{};               // of that curve, trades of all windows
  // Growth a year out of sample over in sample, on average: far under 1 means that the
  // choice was fitted to noise. NaN when there was none in sample.
  double efficiency = 0;
};

// Tickers must have bars of the same days (cut them first). Throws
// invalid_argument when not even one window fits.
WalkForward walk_forward(compute::Compute& compute, std::span<const PriceHistory> histories,
                         const WalkForwardOptions& options);

}  // namespace sluice::market
