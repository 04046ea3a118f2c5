#include "market/backtest/engine/account.h"

#include <algorithm>
#include <cmath>

namespace sluice::market {

double Account::stake(double equity, double volatility) const {
  const double max_stake = trading_.max_leverage * equity;
  switch (trading_.sizing) {
    case Sizing::fraction: return trading_.fraction * equity;
    case Sizing::cash: return std::min(trading_.cash, max_stake);
    case Sizing::volatility:
      if (std::isnan(volatility)) return 0;
      return std::min(equity * trading_.target_volatility / volatility, max_stake);
  }
  return 0;
}

void Account::enter(std::int64_t bar, int side, double price, double volatility) {
  const double equity = cash_, staked = stake(equity, volatility);
  if (ruined_ || !(staked > trading_.fixed_fee)) return;
  const double filled = price * (1 + side * trading_.slippage);
  const double size = (staked - trading_.fixed_fee) / (filled * (1 + trading_.fee));
  if (side > 0)
    cash_ = equity - staked;
  else
    cash_ = equity + size * filled * (1 - trading_.fee) - trading_.fixed_fee;
  quantity_ = side * size;
  traded_ += size * filled / equity;
  equity_before_ = equity;
  trades_.push_back({.entry_bar = bar, .side = side, .quantity = size, .entry_price = filled});
}

void Account::leave(std::int64_t bar, double price, Exit why) {
  const int out = side();
  const double filled = price * (1 - out * trading_.slippage);
  const double value = std::abs(quantity_) * filled, before = equity(price);
  if (before > 0) traded_ += value / before;
  cash_ += out * value - value * trading_.fee - trading_.fixed_fee;
  quantity_ = 0;
  if (cash_ <= 0) {
    cash_ = 0;
    ruined_ = true;
  }
  close_trade(bar, filled, why, cash_);
}

void Account::check_ruin(std::int64_t bar, double price) {
  if (quantity_ == 0 || equity(price) > 0) return;
  cash_ = quantity_ = 0;
  ruined_ = true;
  close_trade(bar, price, Exit::ruin, 0);
}

void Account::close_trade(std::int64_t bar, double price, Exit why, double equity) {
  Trade& trade = trades_.back();
  trade.exit_bar = bar;
  trade.exit_price = price;
  trade.exit = why;
  trade.profit = equity - equity_before_;
  trade.won = trade.profit > kBreakEven * equity_before_;
  trade.profit_rate = trade.profit / (trade.quantity * trade.entry_price);
}

std::vector<Trade> Account::finish(std::int64_t bar, double price) {
  if (quantity_ != 0) close_trade(bar, price, Exit::open, equity(price));
  return std::move(trades_);
}

}  // namespace sluice::market
