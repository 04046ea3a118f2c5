#include "market/indicators/plan/make_plan.h"

#include <algorithm>
#include <cmath>

namespace sluice::market::make {
namespace {

int to_int(double value) { return static_cast<int>(value); }

// Bars after which a factor `keep` per bar has shrunk what was before to 2^-80 of itself:
// less than a double shows even of a price 10^8 times as high.
std::int64_t fade(double keep) {
  if (keep <= 0) return 1;
  return static_cast<std::int64_t>(std::ceil(-80 * std::log(2.0) / std::log(keep)));
}
std::int64_t fade_ema(int n) { return fade(1 - 2.0 / (n + 1)); }
std::int64_t fade_wilder(int n) { return fade((n - 1.0) / n); }

// A plan whose values depend on the last `lookback` + 1 bars only, in blocks of n.
Plan window(IndicatorRule rule, int n, int lookback) {
  Plan plan{.rule = rule, .lookback = lookback, .ring = n, .halo = 2 * std::int64_t{n}};
  plan.n[0] = n;
  plan.align = n;
  return plan;
}

Plan spread(SpreadForm form, Values v) {
  const int n = to_int(v[0]);
  Plan plan = window(IndicatorRule::spread, n, n - 1);
  plan.form = static_cast<int>(form);
  plan.ring = 2 * n;
  plan.k[0] = 1.0 / n;
  return plan;
}

Plan change(ChangeForm form, Values v) {
  Plan plan = window(IndicatorRule::change, to_int(v[0]), to_int(v[0]));
  plan.form = static_cast<int>(form);
  return plan;
}

Plan extreme(ExtremeForm form, Values v) {
  Plan plan = window(IndicatorRule::extreme, to_int(v[0]), to_int(v[0]) - 1);
  plan.form = static_cast<int>(form);
  return plan;
}

Plan wilder(IndicatorRule rule, int form, int n) {
  Plan plan{.rule = rule, .form = form, .lookback = n, .halo = n + fade_wilder(n)};
  plan.n[0] = n;
  plan.k[0] = (n - 1.0) / n;
  plan.k[1] = 1.0 / n;
  return plan;
}

Plan range(RangeForm form, int n) {
  Plan plan = wilder(IndicatorRule::range, static_cast<int>(form), n);
  plan.inputs = 3;
  return plan;
}

Plan trend(TrendForm form, Values v) {
  Plan plan = wilder(IndicatorRule::trend, static_cast<int>(form), to_int(v[0]));
  plan.inputs = 3;
  plan.ratio = 1;
  plan.k[2] = plan.n[0] == 1 ? 1 : 100;  // as TA-Lib, which gives no percentages of one bar
  if (form == TrendForm::adx) {
    plan.lookback = 2 * plan.n[0] - 1;
    plan.halo *= 2;
  }
  return plan;
}

Plan macd_plan(int fast, int slow, int signal, double fast_factor, double slow_factor) {
  Plan plan{.rule = IndicatorRule::macd, .outputs = 3, .lookback = slow - 1 + signal - 1};
  plan.n[0] = fast, plan.n[1] = slow, plan.n[2] = signal;
  plan.k[0] = fast_factor, plan.k[1] = slow_factor, plan.k[2] = 2.0 / (signal + 1);
  plan.halo = plan.lookback + fade(1 - slow_factor) + fade_ema(signal);
  return plan;
}

std::int64_t average_halo(Average type, int n) {
  return type == Average::ema ? n + fade_ema(n) : 2 * std::int64_t{n};
}

Plan stochastic(int fast_k, int slow_k, Average k_type, int slow_d, Average d_type) {
  Plan plan{.rule = IndicatorRule::stoch, .inputs = 3, .outputs = 2};
  plan.n[0] = fast_k, plan.n[1] = slow_k, plan.n[2] = slow_d;
  plan.n[3] = static_cast<int>(k_type) * 16 + static_cast<int>(d_type);
  plan.lookback = fast_k - 1 + slow_k - 1 + slow_d - 1;
  plan.ring = 2 * fast_k + slow_k + slow_d;
  plan.halo = 2 * fast_k + average_halo(k_type, slow_k) + average_halo(d_type, slow_d);
  return plan;
}

Average average(double value) { return static_cast<Average>(to_int(value)); }

}  // namespace

Plan sma(Values v) {
  Plan plan = window(IndicatorRule::sma, to_int(v[0]), to_int(v[0]) - 1);
  plan.k[0] = 1 / v[0];
  return plan;
}

Plan ema(Values v) {
  const int n = to_int(v[0]);
  Plan plan{.rule = IndicatorRule::ema, .lookback = n - 1, .halo = n + fade_ema(n)};
  plan.n[0] = n;
  plan.k[0] = 2.0 / (n + 1);
  return plan;
}

Plan wma(Values v) {
  Plan plan = window(IndicatorRule::wma, to_int(v[0]), to_int(v[0]) - 1);
  plan.k[0] = 2 / (v[0] * (v[0] + 1));
  return plan;
}

Plan macd(Values v) {
  const int fast = to_int(std::min(v[0], v[1])), slow = to_int(std::max(v[0], v[1]));
  return macd_plan(fast, slow, to_int(v[2]), 2.0 / (fast + 1), 2.0 / (slow + 1));
}
Plan macdfix(Values v) { return macd_plan(12, 26, to_int(v[0]), 0.15, 0.075); }

Plan bbands(Values v) {
  Plan plan = spread(SpreadForm::bands, v);
  plan.outputs = 3;
  const double of_root = std::sqrt(plan.k[0]);  // of n times the variance
  plan.k[1] = v[1] * of_root, plan.k[2] = v[2] * of_root;
  plan.n[1] = to_int(v[3]);
  plan.k[3] = v[4] * v[0];
  if (average(v[3]) != Average::sma) {
    plan.form = static_cast<int>(SpreadForm::other_bands);
    plan.ring += plan.n[0];
    plan.halo = std::max(plan.halo, average_halo(average(v[3]), plan.n[0]));
    plan.align = 0;
  }
  return plan;
}

Plan stddev(Values v) {
  Plan plan = spread(SpreadForm::deviation, v);
  plan.k[1] = v[1];
  plan.k[3] = v[2];
  return plan;
}
Plan var(Values v) { return spread(SpreadForm::variance, v); }
Plan zscore(Values v) { return spread(SpreadForm::score, v); }

Plan rsi(Values v) {
  Plan plan = wilder(IndicatorRule::rsi, 0, to_int(v[0]));
  plan.ratio = 1;
  return plan;
}

Plan mom(Values v) { return change(ChangeForm::mom, v); }
Plan roc(Values v) { return change(ChangeForm::roc, v); }
Plan rocp(Values v) { return change(ChangeForm::rocp, v); }
Plan rocr(Values v) { return change(ChangeForm::rocr, v); }
Plan rocr100(Values v) { return change(ChangeForm::rocr100, v); }

Plan trange(Values) {
  Plan plan = range(RangeForm::trange, 1);
  plan.halo = 2;
  return plan;
}
Plan atr(Values v) { return range(RangeForm::atr, to_int(v[0])); }
Plan natr(Values v) {  // of one bar TA-Lib gives the range itself
  return to_int(v[0]) == 1 ? trange(v) : range(RangeForm::natr, to_int(v[0]));
}

Plan adx(Values v) { return trend(TrendForm::adx, v); }
Plan dx(Values v) { return trend(TrendForm::dx, v); }
Plan plus_di(Values v) { return trend(TrendForm::plus_di, v); }
Plan minus_di(Values v) { return trend(TrendForm::minus_di, v); }

Plan max(Values v) { return extreme(ExtremeForm::max, v); }
Plan min(Values v) { return extreme(ExtremeForm::min, v); }

Plan stoch(Values v) {
  return stochastic(to_int(v[0]), to_int(v[1]), average(v[2]), to_int(v[3]), average(v[4]));
}
Plan stochf(Values v) {
  return stochastic(to_int(v[0]), 1, Average::sma, to_int(v[1]), average(v[2]));
}

Plan stochrsi(Values v) {
  Plan plan = stochastic(to_int(v[1]), 1, Average::sma, to_int(v[2]), average(v[3]));
  const Plan strength = rsi(v);
  plan.rule = IndicatorRule::stochrsi;
  plan.inputs = 1;
  plan.form = to_int(v[3]);
  plan.n[3] = strength.n[0];
  plan.k[0] = strength.k[0];
  plan.ratio = 1;
  plan.lookback += strength.lookback;
  plan.halo += strength.halo;
  return plan;
}

Plan willr(Values v) {
  Plan plan = window(IndicatorRule::willr, to_int(v[0]), to_int(v[0]) - 1);
  plan.inputs = 3;
  plan.ring = 2 * plan.n[0];
  return plan;
}

Plan cci(Values v) {
  Plan plan = window(IndicatorRule::cci, to_int(v[0]), to_int(v[0]) - 1);
  plan.inputs = 3;
  plan.k[0] = 0.015 / v[0];
  plan.k[1] = v[0] * kRounding;
  return plan;
}

Plan obv(Values) { return {.rule = IndicatorRule::obv, .inputs = 2, .halo = kEndless}; }

Plan vwap(Values v) {
  const int n = to_int(v[0]);
  if (n == 0) return {.rule = IndicatorRule::vwap, .inputs = 4, .halo = kEndless};
  Plan plan = window(IndicatorRule::vwap, n, n - 1);
  plan.inputs = 4;
  plan.ring = 2 * n;
  return plan;
}

Plan momentum_signal(Values v) {
  Plan plan = window(IndicatorRule::momentum_signal, to_int(v[0]), to_int(v[0]));
  plan.k[0] = v[1];
  return plan;
}

Plan reversion_signal(Values v) {
  Plan plan = spread(SpreadForm::score, v);
  plan.rule = IndicatorRule::reversion_signal;
  plan.k[1] = v[1], plan.k[2] = v[2];
  plan.halo = kEndless;  // a position may be held for ever
  return plan;
}

Plan swing_signal(Values v) {
  const int fast = to_int(v[0]), slow = to_int(v[1]), strength = to_int(v[2]);
  Plan plan = wilder(IndicatorRule::swing_signal, 0, strength);
  plan.n[1] = fast, plan.n[2] = slow;
  plan.k[3] = v[3], plan.k[4] = 2.0 / (fast + 1), plan.k[5] = 2.0 / (slow + 1);
  plan.lookback = std::max({fast - 1, slow - 1, strength + 1});
  plan.halo = kEndless;
  return plan;
}

}  // namespace sluice::market::make
