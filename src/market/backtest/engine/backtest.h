// One strategy with one set of parameters on one ticker, bar by bar, with everything that
// happened. This is the reference engine in double. The fast engines of sweep.h are tested
// against it: the same trades, and equity within 1e-9.
//
//   Backtest test = run_backtest(history, {.strategy = Strategy::sma_cross,
//                                          .parameters = {20, 50}});
//   test.metrics.sharpe; test.trades; test.equity;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "market/backtest/engine/history.h"
#include "market/backtest/engine/metrics.h"
#include "market/backtest/engine/strategy.h"
#include "market/backtest/engine/trading.h"

namespace sluice::market {

struct BacktestOptions {
  Strategy strategy = Strategy::sma_cross;
  ParameterSet parameters = default_parameters(Strategy::sma_cross);
  Trading trading{};
  Span span{};
};

enum class Exit : std::int32_t { open, signal, stop_loss, take_profit, ruin };
std::string_view to_string(Exit exit) noexcept;

struct Trade {
  std::int64_t entry_bar = 0, exit_bar = 0;  // where it was filled; the last for an open one
  int side = 1;                              // 1 long, -1 short
  double quantity = 0;
  double entry_price = 0, exit_price = 0;  // with slippage; an open one: the last close
  double profit = 0;                       // after all costs, in money
  double profit_rate = 0;                  // over what the position was worth at the entry
  bool won = false;                        // a profit above kBreakEven of equity
  Exit exit = Exit::open;
};

struct Backtest {
  std::string ticker{};
  BacktestOptions options{};  // as run: span.end is set
  std::vector<std::int32_t> days{};
  // Values at the close of each bar from span.first - 1 (the initial cash) to span.end - 1; `days`
  // runs alongside, empty where the history has none. `hold` is the account that buys at
  // the first fill, with the same costs, and keeps.
  std::vector<double> equity{}, hold{};
  std::vector<Trade> trades{};
  Metrics metrics{}, hold_metrics{};
};

// Throws invalid_argument for prices, parameters or options that do not pass validate(), a
// span outside the history, fills at opens where there are none, and prices so far apart that the
// equity is no finite number.
Backtest run_backtest(const PriceHistory& history, const BacktestOptions& options);

// Checks shared with the sweeps; gives the span with its end set.
Span checked_span(const PriceHistory& history, const Trading& trading, Span span);

// Metrics that follow from the curve alone: all but those about trades.
Metrics metrics_of_curve(const std::vector<double>& equity, const Trading& trading);

}  // namespace sluice::market
