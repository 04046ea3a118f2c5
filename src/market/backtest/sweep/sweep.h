// Backtests of many parameter sets on many tickers, on the CPU or a GPU. Only metrics are kept, no
// equity curves; run_backtest() gives the details of a set.
//
//   const std::vector<Axis> axes = {axis_from("fast", "5:50:5"), axis_from("slow", "20:200:10")};
//   SweepResult result = sweep(compute, histories, {.sets = grid(Strategy::sma_cross, axes)});
//   result.sets[result.best()].parameters;
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compute/compute.h"
#include "market/backtest/engine/backtest.h"

namespace sluice::market {

struct SweepProgress {
  std::size_t done = 0, total = 0;  // ticker-set pairs
  double bar_sets = 0;              // bars x sets so far
  double seconds = 0;
};

struct SweepOptions {
  Strategy strategy = Strategy::sma_cross;
  std::vector<ParameterSet> sets{};
  Trading trading{};
  Span span{};  // of every ticker
  Metric metric = Metric::sharpe;
  compute::DevicePreference device = compute::DevicePreference::automatic;
  std::function<void(const SweepProgress&)> progress{};  // called now and then, and at the end
};

// The metrics of one set. With several tickers they are means over their accounts, each with the
// initial cash; trades are summed, and win rate and profit factor are those of all trades.
struct SetResult {
  ParameterSet parameters{};
  Metrics metrics{};
};

struct TickerResult {
  std::string ticker;
  std::size_t best = 0;  // the set that did best on it
  Metrics metrics{};     // of that set
};

struct SweepResult {
  Strategy strategy = Strategy::sma_cross;
  Trading trading{};
  Metric metric = Metric::sharpe;
  std::vector<SetResult> sets;
  std::vector<TickerResult> tickers;
  double bar_sets = 0, seconds = 0;
  std::string ran_on;  // the reason for the device of the first call

  // Returns the sets from best to worst by the metric; of equal ones the earlier is first.
  std::vector<std::size_t> ranking() const;
  std::size_t best() const;
};

// Trades are exactly run_backtest()'s; equity and every metric agree to 1e-9, on the CPU and
// on the GPU. Throws invalid_argument as run_backtest() does, and for no sets or tickers.
SweepResult sweep(compute::Compute& compute, std::span<const PriceHistory> histories,
                  const SweepOptions& options);

const compute::Operation& sweep_operation();

}  // namespace sluice::market
