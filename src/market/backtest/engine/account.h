// The cash account of a backtest. It holds one position at a time and pays costs at each fill.
#pragma once

#include <vector>

#include "market/backtest/engine/backtest.h"

namespace sluice::market {

class Account {
 public:
  explicit Account(const Trading& trading) : trading_(trading), cash_(trading.initial_cash) {}

  int side() const noexcept { return quantity_ > 0 ? 1 : quantity_ < 0 ? -1 : 0; }
  double equity(double price) const noexcept { return cash_ + quantity_ * price; }
  bool ruined() const noexcept { return ruined_; }
  double traded() const noexcept { return traded_; }
  double entry_price() const noexcept { return trades_.back().entry_price; }

  // Enters a position on `side` with the stake that the sizing gives. `volatility` is the yearly
  // one of the ticker.
  void enter(std::int64_t bar, int side, double price, double volatility);
  void leave(std::int64_t bar, double price, Exit why);
  // Called at each close. An account without positive equity is closed for good.
  void check_ruin(std::int64_t bar, double price);

  // Closes a position that is still open at the last close, without costs, and returns all trades.
  std::vector<Trade> finish(std::int64_t bar, double price);

 private:
  double stake(double equity, double volatility) const;
  void close_trade(std::int64_t bar, double price, Exit why, double equity);

  const Trading& trading_;
  double cash_, quantity_ = 0, traded_ = 0;
  double equity_before_ = 0;  // the trade that is open
  bool ruined_ = false;
  std::vector<Trade> trades_;
};

}  // namespace sluice::market
