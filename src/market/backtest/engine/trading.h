// Trading rules of a backtest: fills, costs, position sizing and stops.
#pragma once

#include <cstdint>

namespace sluice::market {

enum class Sides : std::int32_t { long_only, short_only, both };
enum class Fill : std::int32_t { next_open, next_close };
enum class Sizing : std::int32_t { fraction, cash, volatility };

// A signal of the close of bar t is filled on bar t + 1, never before. An account trades one
// ticker, with one position at a time: of a size set when it is entered, kept until it is
// left. Interest, dividends and the cost of lending shares are not modelled.
struct Trading {
  double initial_cash = 100000;
  Sides sides = Sides::long_only;
  Fill fill = Fill::next_open;

  // Costs of every fill: `fee` is a fraction of its value, `fixed_fee` an amount of money,
  // `slippage` a fraction of the price to the account's disadvantage.
  double fee = 0.0005, fixed_fee = 0, slippage = 0.0005;

  // The stake of a position is a fraction of equity; `cash`; or equity x
  // target_volatility / the ticker's volatility of the last volatility_period returns, a
  // year, known at the signal. The last two never more than max_leverage x equity. The fees
  // of the entry come out of the stake. Nothing is traded when they are all of it, or the
  // volatility is not known yet.
  Sizing sizing = Sizing::fraction;
  double fraction = 1, cash = 10000, target_volatility = 0.15;
  std::int32_t volatility_period = 20;
  double max_leverage = 1;

  // Distance from the price of the entry as a fraction of it; 0: none. Watched within a bar
  // by its high and low; both within one bar: the loss counts. A bar that opens beyond is
  // filled at its open. After a stop the same side is entered again only when its signal
  // has been off at the close of a bar.
  double stop_loss = 0, take_profit = 0;

  // These scale to yearly figures; risk_free is a rate per year.
  double periods_per_year = 252, risk_free = 0;
};

// Throws invalid_argument, naming the value and its range.
void validate(const Trading& trading);

// Bars that may be traded: fills are on [first, end), by signals from first - 1 on; what
// was before only warms up. An end of 0 is the last bar.
struct Span {
  std::int64_t first = 1, end = 0;
};

}  // namespace sluice::market
