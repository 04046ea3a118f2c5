#include "market/backtest/engine/trading.h"

#include "market/input/require.h"

namespace sluice::market {

void validate(const Trading& trading) {
  require_range("initial_cash", trading.initial_cash, 1e-6, 1e15);
  require_range("fee", trading.fee, 0.0, 0.5);
  require_range("fixed_fee", trading.fixed_fee, 0.0, 1e15);
  require_range("slippage", trading.slippage, 0.0, 0.5);
  require_range("fraction", trading.fraction, 1e-6, 10.0);
  require_range("cash", trading.cash, 1e-6, 1e15);
  require_range("target_volatility", trading.target_volatility, 1e-6, 10.0);
  require_range("volatility_period", trading.volatility_period, 2);
  require_range("max_leverage", trading.max_leverage, 1e-6, 10.0);
  require_range("stop_loss", trading.stop_loss, 0.0, 0.999);
  require_range("take_profit", trading.take_profit, 0.0, 1000.0);
  require_range("periods_per_year", trading.periods_per_year, 1.0, 1e7);
  require_range("risk_free", trading.risk_free, -0.5, 1.0);
}

}  // namespace sluice::market
