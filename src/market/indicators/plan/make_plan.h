// The plan of each indicator from the values of its parameters, in the table's order.
#pragma once

#include <span>

#include "market/indicators/plan/plan.h"

namespace sluice::market::make {

using Values = std::span<const double>;

Plan sma(Values v);
Plan ema(Values v);
Plan wma(Values v);
Plan macd(Values v);
Plan macdfix(Values v);
Plan bbands(Values v);
Plan stddev(Values v);
Plan var(Values v);
Plan zscore(Values v);
Plan rsi(Values v);
Plan mom(Values v);
Plan roc(Values v);
Plan rocp(Values v);
Plan rocr(Values v);
Plan rocr100(Values v);
Plan trange(Values v);
Plan atr(Values v);
Plan natr(Values v);
Plan adx(Values v);
Plan dx(Values v);
Plan plus_di(Values v);
Plan minus_di(Values v);
Plan max(Values v);
Plan min(Values v);
Plan stoch(Values v);
Plan stochf(Values v);
Plan stochrsi(Values v);
Plan willr(Values v);
Plan cci(Values v);
Plan obv(Values v);
Plan vwap(Values v);
Plan momentum_signal(Values v);
Plan reversion_signal(Values v);
Plan swing_signal(Values v);

}  // namespace sluice::market::make
