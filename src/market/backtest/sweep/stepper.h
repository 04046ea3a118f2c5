// An account that supports all options of Trading. It is simulated bar by bar.
#pragma once

#include <cstdint>

#include "market/backtest/engine/metrics.h"
#include "market/backtest/sweep/set_code.h"

namespace sluice::market {

struct StepPrices {
  const double *open, *high, *low, *close;
  const double* volatility;  // of a year, known at each close; only for that sizing
};

struct StepSignal {
  bool enter_long, leave_long, enter_short, leave_short;
};

class Stepper {
 public:
  SLUICE_HD Stepper(const Trading& trading, const StepPrices& prices)
      : rules_(trading),
        prices_(prices),
        cash_(trading.initial_cash),
        equity_(trading.initial_cash),
        peak_(trading.initial_cash),
        free_(trading.risk_free / trading.periods_per_year) {}

  // Fills orders, watches stops and values the account at the close of bar t.
  SLUICE_HD void bar(std::int64_t t) {
    if (rules_.fill == Fill::next_open) {
      const bool entered = fill(t, prices_.open[t]);
      if (side_ != 0) stops(t, !entered);
    } else {
      if (side_ != 0) stops(t, true);
      fill(t, prices_.close[t]);
    }
    double worth = cash_ + size_ * prices_.close[t];
    if (side_ != 0 && worth <= 0) {
      cash_ = worth = 0;
      close_trade(0);
    }
    const double change = equity_ > 0 ? worth / equity_ - 1 : 0;
    equity_ = worth;
    tally_.sum += change;
    tally_.squares += change * change;
    const double under = change - free_;
    if (under < 0) tally_.downside += under * under;
    peak_ = worth > peak_ ? worth : peak_;
    const double fall = 1 - worth / peak_;
    tally_.max_drawdown = fall > tally_.max_drawdown ? fall : tally_.max_drawdown;
    tally_.bars_in += side_ != 0 ? 1 : 0;
  }

  // Called at the close of a bar.
  SLUICE_HD void decide(const StepSignal& s) {
    if ((blocked_ > 0 && !s.enter_long) || (blocked_ < 0 && !s.enter_short)) blocked_ = 0;
    const bool up = s.enter_long && rules_.sides != Sides::short_only && blocked_ <= 0;
    const bool down = s.enter_short && rules_.sides != Sides::long_only && blocked_ >= 0;
    if (side_ > 0)
      target_side_ = down ? -1 : s.leave_long ? 0 : 1;
    else if (side_ < 0)
      target_side_ = up ? 1 : s.leave_short ? 0 : -1;
    else
      target_side_ = up ? 1 : down ? -1 : 0;
  }

  SLUICE_HD Tally finish() {
    if (side_ != 0) close_trade(equity_);
    tally_.equity = equity_;
    return tally_;
  }

 private:
  SLUICE_HD bool fill(std::int64_t t, double price) {
    if (target_side_ == side_) return false;
    if (side_ != 0) leave(price);
    if (target_side_ != 0) enter(t, target_side_, price);
    return side_ != 0;
  }

  SLUICE_HD double stake(std::int64_t t) const {
    const double max_stake = rules_.max_leverage * cash_;
    if (rules_.sizing == Sizing::fraction) return rules_.fraction * cash_;
    if (rules_.sizing == Sizing::cash) return rules_.cash < max_stake ? rules_.cash : max_stake;
    const double stake = cash_ * rules_.target_volatility / prices_.volatility[t - 1];
    return max_stake < stake ? max_stake : stake;  // a NaN where the volatility is one
  }

  SLUICE_HD void enter(std::int64_t t, int side, double price) {
    const double equity = cash_, staked = stake(t);
    if (!(equity > 0) || !(staked > rules_.fixed_fee)) return;
    entry_ = price * (1 + side * rules_.slippage);
    const double size = (staked - rules_.fixed_fee) / (entry_ * (1 + rules_.fee));
    cash_ =
        side > 0 ? equity - staked : equity + size * entry_ * (1 - rules_.fee) - rules_.fixed_fee;
    size_ = side * size;
    side_ = side;
    tally_.traded += size * entry_ / equity;
    before_ = equity;
    ++tally_.trades;
  }

  SLUICE_HD void leave(double price) {
    const double filled = price * (1 - side_ * rules_.slippage);
    const double signed_value = size_ * filled, value = side_ * signed_value;
    const double worth = cash_ + size_ * price;
    if (worth > 0) tally_.traded += value / worth;
    cash_ += signed_value - value * rules_.fee - rules_.fixed_fee;
    if (cash_ <= 0) cash_ = 0;
    close_trade(cash_);
  }

  SLUICE_HD void close_trade(double worth) {
    const double profit = worth - before_;
    tally_.wins += profit > kBreakEven * before_ ? 1 : 0;
    (profit > 0 ? tally_.profits : tally_.losses) += profit > 0 ? profit : -profit;
    size_ = 0;
    side_ = 0;
  }

  SLUICE_HD void stops(std::int64_t t, bool was_open_before) {
    const bool up = side_ > 0;
    const double s = side_, open = prices_.open[t] * s;
    const double worst = (up ? prices_.low[t] : prices_.high[t]) * s;
    const double best = (up ? prices_.high[t] : prices_.low[t]) * s;
    const double stop = entry_ * (1 - s * rules_.stop_loss) * s;
    const double take = entry_ * (1 + s * rules_.take_profit) * s;
    const bool stops = rules_.stop_loss > 0, takes = rules_.take_profit > 0;
    double at;
    if (was_open_before && ((stops && open <= stop) || (takes && open >= take)))
      at = open;
    else if (stops && worst <= stop)
      at = stop;
    else if (takes && best >= take)
      at = take;
    else
      return;
    blocked_ = side_;
    if (target_side_ == side_) target_side_ = 0;  // to hold was no order
    leave(at * s);
  }

  const Trading& rules_;
  StepPrices prices_;
  Tally tally_{};
  double cash_, equity_, peak_, free_;
  double size_ = 0, entry_ = 0, before_ = 0;  // of the position: signed shares, price, equity
  int side_ = 0, target_side_ = 0, blocked_ = 0;
};

}  // namespace sluice::market
