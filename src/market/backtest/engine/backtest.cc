#include "market/backtest/engine/backtest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/backtest/engine/account.h"
#include "market/backtest/engine/signals.h"
#include "market/indicators/plan/make_plan.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

constexpr std::int64_t kBarsPerLook = 4096;  // bars between two checks for cancellation

// The yearly volatility of the returns up to each bar.
class Volatility {
 public:
  explicit Volatility(const Trading& trading)
      : stream_(plan(trading)), year_(std::sqrt(trading.periods_per_year)) {}

  double update(double close) {
    double out = std::numeric_limits<double>::quiet_NaN();
    if (before_) {
      const double change = close / *before_ - 1;
      stream_.update({&change, 1}, {&out, 1});
    }
    before_ = close;
    return out * year_;
  }

 private:
  static Plan plan(const Trading& trading) {
    const double values[] = {static_cast<double>(trading.volatility_period), 1, 0};
    return make::stddev(values);
  }
  Stream stream_;
  double year_;
  std::optional<double> before_;
};

// Sets the metrics that follow from the trades.
void set_outcomes(const std::vector<Trade>& trades, Metrics& m) {
  double profits = 0, losses = 0, wins = 0;
  for (const Trade& trade : trades) {
    (trade.profit > 0 ? profits : losses) += std::abs(trade.profit);
    wins += trade.won;
  }
  m.trades = static_cast<std::int64_t>(trades.size());
  m.win_rate = m.trades > 0 ? wins / static_cast<double>(m.trades) : 0;
  if (losses > 0)
    m.profit_factor = profits / losses;
  else
    m.profit_factor = profits > 0 ? std::numeric_limits<double>::infinity() : 0;
}

// The loop over bars: fills and stops of a bar first, then the decision at its close.
class Run {
 public:
  Run(const PriceHistory& prices, const BacktestOptions& options)
      : prices_(prices),
        options_(options),
        signals_(options.strategy, options.parameters),
        volatility_(options.trading),
        account_(options.trading) {}

  void run(Backtest& result) {
    const Span span = options_.span;
    for (std::int64_t t = 0; t < span.end; ++t) {
      if (t % kBarsPerLook == 0) throw_if_cancelled();
      if (t >= span.first) {
        trade(t);
        account_.check_ruin(t, at(prices_.close, t));
      }
      if (t >= span.first - 1) {
        result.equity.push_back(account_.equity(at(prices_.close, t)));
        bars_in_ += t >= span.first && account_.side() != 0;
      }
      const Signal signal = signals_.update(at(prices_.close, t));
      known_volatility_ = volatility_.update(at(prices_.close, t));
      if (t >= span.first - 1) order(signal);
    }
    result.trades = account_.finish(span.end - 1, at(prices_.close, span.end - 1));
    set_trade_metrics(result);
  }

 private:
  static double at(const std::vector<double>& values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  }

  void trade(std::int64_t t) {
    if (options_.trading.fill == Fill::next_open) {
      const bool entered = fill(t, at(prices_.open, t));
      check_stops(t, !entered);
    } else {
      check_stops(t, true);
      fill(t, at(prices_.close, t));
    }
  }

  // Carries out the order of the last close; whether a position was entered.
  bool fill(std::int64_t t, double price) {
    if (!target_side_ || *target_side_ == account_.side()) return false;
    if (account_.side() != 0) account_.leave(t, price, Exit::signal);
    if (*target_side_ != 0) account_.enter(t, *target_side_, price, known_volatility_);
    return account_.side() != 0;
  }

  void check_stops(std::int64_t t, bool was_open_before) {
    const Trading& rules = options_.trading;
    const int side = account_.side();
    if (side == 0) return;
    const double entry = account_.entry_price(), open = at(prices_.open, t);
    // Comparisons are those of a long position. For a short one prices are negated.
    const double worst = side > 0 ? at(prices_.low, t) : at(prices_.high, t);
    const double best = side > 0 ? at(prices_.high, t) : at(prices_.low, t);
    const double stop = entry * (1 - side * rules.stop_loss);
    const double take = entry * (1 + side * rules.take_profit);
    const auto beyond_stop = [&](double p) {
      return rules.stop_loss > 0 && side * p <= side * stop;
    };
    const auto beyond_take = [&](double p) {
      return rules.take_profit > 0 && side * p >= side * take;
    };
    if (was_open_before && beyond_stop(open)) return stop_out(t, open, Exit::stop_loss);
    if (was_open_before && beyond_take(open)) return stop_out(t, open, Exit::take_profit);
    if (beyond_stop(worst)) return stop_out(t, stop, Exit::stop_loss);
    if (beyond_take(best)) return stop_out(t, take, Exit::take_profit);
  }

  void stop_out(std::int64_t t, double price, Exit why) {
    blocked_ = account_.side();
    account_.leave(t, price, why);
  }

  void order(const Signal& signal) {
    if (blocked_ > 0 && !signal.enter_long) blocked_ = 0;
    if (blocked_ < 0 && !signal.enter_short) blocked_ = 0;
    const Sides sides = options_.trading.sides;
    const int position =
        decide(signal, account_.side(), sides != Sides::short_only && blocked_ <= 0,
               sides != Sides::long_only && blocked_ >= 0);
    target_side_.reset();
    if (position != account_.side()) target_side_ = position;
  }

  void set_trade_metrics(Backtest& result) const {
    Metrics& m = result.metrics;
    m = metrics_of_curve(result.equity, options_.trading);
    set_outcomes(result.trades, m);
    const double bars = static_cast<double>(result.equity.size() - 1);
    m.exposure = static_cast<double>(bars_in_) / bars;
    m.turnover = account_.traded() * options_.trading.periods_per_year / bars;
  }

  const PriceHistory& prices_;
  const BacktestOptions& options_;
  SignalStream signals_;
  Volatility volatility_;
  Account account_;
  std::optional<int> target_side_;  // an order of the last close: the position to take
  double known_volatility_ = std::numeric_limits<double>::quiet_NaN();
  int blocked_ = 0;  // the side that was stopped out and waits for a new signal
  std::int64_t bars_in_ = 0;
};

void add_hold(const PriceHistory& prices, Backtest& result) {
  Trading trading = result.options.trading;
  trading.sizing = Sizing::fraction;
  trading.fraction = 1;
  const Span span = result.options.span;
  const auto& fills = trading.fill == Fill::next_open ? prices.open : prices.close;
  Account account(trading);
  result.hold.push_back(account.equity(0));
  account.enter(span.first, 1, fills[static_cast<std::size_t>(span.first)], 0);
  for (std::int64_t t = span.first; t < span.end; ++t)
    result.hold.push_back(account.equity(prices.close[static_cast<std::size_t>(t)]));
  const double bars = static_cast<double>(result.hold.size() - 1), traded = account.traded();
  Metrics& m = result.hold_metrics;
  m = metrics_of_curve(result.hold, trading);
  set_outcomes(account.finish(span.end - 1, prices.close[static_cast<std::size_t>(span.end - 1)]),
               m);
  m.exposure = 1;
  m.turnover = traded * trading.periods_per_year / bars;
}

// Prices that are hundreds of digits apart make an account no double can hold.
void require_finite(const PriceHistory& history, const std::vector<double>& equity) {
  if (!std::ranges::all_of(equity, [](double value) { return std::isfinite(value); }))
    throw Error(Code::invalid_argument,
                fmt::format("{}: the prices are too far apart: the value of the account leaves the "
                            "range of numbers",
                            short_name(history.ticker)));
}

}  // namespace

std::string_view to_string(Exit exit) noexcept {
  switch (exit) {
    case Exit::open: return "open";
    case Exit::signal: return "signal";
    case Exit::stop_loss: return "stop loss";
    case Exit::take_profit: return "take profit";
    case Exit::ruin: return "ruin";
  }
  return "unknown";
}

Span checked_span(const PriceHistory& history, const Trading& trading, Span span) {
  const auto bars = static_cast<std::int64_t>(history.size());
  if (span.end == 0) span.end = bars;
  require(span.first >= 1 && span.first < span.end && span.end <= bars,
          fmt::format("{}: bars {} to {} cannot be traded; there are {}, and the first only "
                      "gives a signal",
                      short_name(history.ticker), span.first, span.end, bars));
  require(
      trading.fill == Fill::next_close || !history.open.empty(),
      fmt::format("{}: there are no opens; fill at the next close", short_name(history.ticker)));
  return span;
}

Metrics metrics_of_curve(const std::vector<double>& equity, const Trading& trading) {
  Tally tally{.equity = equity.back()};
  const double free = trading.risk_free / trading.periods_per_year;
  double peak = equity.front();
  for (std::size_t i = 1; i < equity.size(); ++i) {
    const double change = equity[i - 1] > 0 ? equity[i] / equity[i - 1] - 1 : 0;
    tally.sum += change;
    tally.squares += change * change;
    tally.downside += std::pow(std::min(change - free, 0.0), 2);
    peak = std::max(peak, equity[i]);
    tally.max_drawdown = std::max(tally.max_drawdown, 1 - equity[i] / peak);
  }
  return metrics_of(tally, static_cast<std::int64_t>(equity.size()) - 1, trading);
}

Backtest run_backtest(const PriceHistory& history, const BacktestOptions& options) {
  validate(history);
  validate(options.strategy, options.parameters);
  validate(options.trading);
  Backtest result{.ticker = history.ticker, .options = options};
  result.options.span = checked_span(history, options.trading, options.span);
  const PriceHistory prices = completed(history);
  if (!history.days.empty())
    result.days.assign(history.days.begin() + result.options.span.first - 1,
                       history.days.begin() + result.options.span.end);
  Run(prices, result.options).run(result);
  add_hold(prices, result);
  require_finite(history, result.equity);
  require_finite(history, result.hold);
  return result;
}

}  // namespace sluice::market
