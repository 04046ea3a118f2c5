#include "market/indicators/indicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "market/indicators/plan/make_plan.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

constexpr double kMaxPeriod = kMaxBars;
const std::vector<Input> kClose{Input::close};
const std::vector<Input> kBar{Input::high, Input::low, Input::close};
const std::vector<std::string_view> kReal{"real"};

Parameter period(double default_value, double min = 1, std::string_view name = "timeperiod") {
  return {name, default_value, min, kMaxPeriod, true, "bars"};
}
Parameter matype(std::string_view name = "matype") {
  return {name, 0, 0, 2, true, "average: 0 SMA, 1 EMA, 2 WMA"};
}
Parameter deviations(std::string_view name, double default_value) {
  return {name, default_value, -3e37, 3e37, false, "deviations"};
}
Parameter cliff() {
  return {"zero_variance",
          0,
          0,
          1,
          false,
          "variances below it are taken for 0; 1e-14 is TA-Lib's rule"};
}

std::vector<Indicator> averages() {
  return {
      {"SMA", "Simple moving average", "averages", kClose, true, {period(30)}, kReal, make::sma},
      {"EMA",
       "Exponential moving average",
       "averages",
       kClose,
       true,
       {period(30)},
       kReal,
       make::ema},
      {"WMA", "Weighted moving average", "averages", kClose, true, {period(30)}, kReal, make::wma},
      {"VWAP",
       "Volume-weighted average price of the last bars; of all, with a period of 0",
       "averages",
       {Input::high, Input::low, Input::close, Input::volume},
       false,
       {period(0, 0)},
       kReal,
       make::vwap},
      {"MAX",
       "Highest value of the last bars",
       "averages",
       kClose,
       true,
       {period(30, 2)},
       kReal,
       make::max},
      {"MIN",
       "Lowest value of the last bars",
       "averages",
       kClose,
       true,
       {period(30, 2)},
       kReal,
       make::min},
  };
}

std::vector<Indicator> statistics() {
  return {
      {"BBANDS",
       "Bollinger bands",
       "statistics",
       kClose,
       true,
       {period(20, 2), deviations("nbdevup", 2), deviations("nbdevdn", 2), matype(), cliff()},
       {"upperband", "middleband", "lowerband"},
       make::bbands},
      {"STDDEV",
       "Standard deviation (population)",
       "statistics",
       kClose,
       true,
       {period(5, 2), deviations("nbdev", 1), cliff()},
       kReal,
       make::stddev},
      {"VAR",
       "Variance (population)",
       "statistics",
       kClose,
       true,
       {period(5), deviations("nbdev", 1)},
       kReal,
       make::var},
      {"ZSCORE",
       "Distance from the mean in standard deviations",
       "statistics",
       kClose,
       true,
       {period(20, 2)},
       kReal,
       make::zscore},
  };
}

std::vector<Indicator> momentum() {
  return {
      {"MACD",
       "Moving average convergence/divergence",
       "momentum",
       kClose,
       true,
       {period(12, 2, "fastperiod"), period(26, 2, "slowperiod"), period(9, 1, "signalperiod")},
       {"macd", "macdsignal", "macdhist"},
       make::macd},
      {"MACDFIX",
       "MACD with the fixed factors 0.15 and 0.075",
       "momentum",
       kClose,
       true,
       {period(9, 1, "signalperiod")},
       {"macd", "macdsignal", "macdhist"},
       make::macdfix},
      {"RSI",
       "Relative strength index",
       "momentum",
       kClose,
       true,
       {period(14, 2)},
       kReal,
       make::rsi},
      {"MOM",
       "Momentum: the change over some bars",
       "momentum",
       kClose,
       true,
       {period(10)},
       kReal,
       make::mom},
      {"ROC",
       "Rate of change in percent",
       "momentum",
       kClose,
       true,
       {period(10)},
       kReal,
       make::roc},
      {"ROCP",
       "Rate of change as a fraction",
       "momentum",
       kClose,
       true,
       {period(10)},
       kReal,
       make::rocp},
      {"ROCR",
       "Rate of change as a ratio",
       "momentum",
       kClose,
       true,
       {period(10)},
       kReal,
       make::rocr},
      {"ROCR100",
       "Rate of change as a ratio, in percent",
       "momentum",
       kClose,
       true,
       {period(10)},
       kReal,
       make::rocr100},
      {"WILLR", "Williams' %R", "momentum", kBar, false, {period(14, 2)}, kReal, make::willr},
      {"CCI",
       "Commodity channel index",
       "momentum",
       kBar,
       false,
       {period(14, 2)},
       kReal,
       make::cci},
  };
}

std::vector<Indicator> stochastics() {
  return {
      {"STOCH",
       "Stochastic",
       "momentum",
       kBar,
       false,
       {period(5, 1, "fastk_period"), period(3, 1, "slowk_period"), matype("slowk_matype"),
        period(3, 1, "slowd_period"), matype("slowd_matype")},
       {"slowk", "slowd"},
       make::stoch},
      {"STOCHF",
       "Fast stochastic",
       "momentum",
       kBar,
       false,
       {period(5, 1, "fastk_period"), period(3, 1, "fastd_period"), matype("fastd_matype")},
       {"fastk", "fastd"},
       make::stochf},
      {"STOCHRSI",
       "Fast stochastic of the relative strength index",
       "momentum",
       kClose,
       true,
       {period(14, 2), period(5, 1, "fastk_period"), period(3, 1, "fastd_period"),
        matype("fastd_matype")},
       {"fastk", "fastd"},
       make::stochrsi},
  };
}

std::vector<Indicator> bars() {
  return {
      {"TRANGE", "True range", "volatility", kBar, false, {}, kReal, make::trange},
      {"ATR", "Average true range", "volatility", kBar, false, {period(14)}, kReal, make::atr},
      {"NATR",
       "Average true range in percent of the close",
       "volatility",
       kBar,
       false,
       {period(14)},
       kReal,
       make::natr},
      {"ADX",
       "Average directional movement index",
       "trend",
       kBar,
       false,
       {period(14, 2)},
       kReal,
       make::adx},
      {"DX", "Directional movement index", "trend", kBar, false, {period(14, 2)}, kReal, make::dx},
      {"PLUS_DI",
       "Plus directional indicator",
       "trend",
       kBar,
       false,
       {period(14)},
       kReal,
       make::plus_di},
      {"MINUS_DI",
       "Minus directional indicator",
       "trend",
       kBar,
       false,
       {period(14)},
       kReal,
       make::minus_di},
      {"OBV",
       "On-balance volume",
       "volume",
       {Input::close, Input::volume},
       false,
       {},
       kReal,
       make::obv},
  };
}

std::vector<Indicator> signals() {
  return {
      {"MOMENTUM_SIGNAL",
       "Long after a rise, short after a fall by more than the threshold",
       "signals",
       kClose,
       true,
       {period(10), {"threshold", 0, 0, 1e9, false, "minimum change, as a fraction"}},
       {"signal"},
       make::momentum_signal},
      {"MEAN_REVERSION_SIGNAL",
       "Against a z-score beyond entry, until it is back within exit",
       "signals",
       kClose,
       true,
       {period(20, 2),
        {"entry", 2, 0, 1e9, false, "deviations to enter at"},
        {"exit", 0.5, 0, 1e9, false, "deviations to leave at"}},
       {"signal"},
       make::reversion_signal},
      {"SWING_SIGNAL",
       "With the trend of two averages, when the RSI ends a move against it",
       "signals",
       kClose,
       true,
       {period(20, 2, "fastperiod"),
        period(50, 2, "slowperiod"),
        period(14, 2, "rsiperiod"),
        {"level", 40, 0, 50, false, "RSI that ends a dip; 100 minus it ends a peak"}},
       {"signal"},
       make::swing_signal},
  };
}

std::vector<Indicator> all() {
  std::vector<Indicator> table;
  for (auto part : {averages, statistics, momentum, stochastics, bars, signals})
    for (Indicator& one : part()) table.push_back(std::move(one));
  return table;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto upper = [](char c) { return std::toupper(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, upper, upper);
}

}  // namespace

std::string_view to_string(Input input) noexcept {
  switch (input) {
    case Input::open: return "open";
    case Input::high: return "high";
    case Input::low: return "low";
    case Input::close: return "close";
    case Input::volume: return "volume";
  }
  return "";
}

Plan Indicator::plan(std::span<const double> values) const {
  require(values.size() <= parameters.size(),
          fmt::format("{} has {} parameters, not {}", name, parameters.size(), values.size()));
  std::vector<double> all(values.begin(), values.end());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i >= all.size()) all.push_back(parameter.default_value);
    require_range(parameter.name, all[i], parameter.min, parameter.max);
    require(!parameter.integer || all[i] == std::floor(all[i]),
            fmt::format("{} is {}; it must be an integer", parameter.name, all[i]));
  }
  return make(all);
}

Plan Indicator::plan(const Arguments& arguments) const {
  std::vector<double> values;
  for (const Parameter& parameter : parameters) values.push_back(parameter.default_value);
  for (const auto& [key, value] : arguments) {
    const auto found = std::ranges::find(parameters, key, &Parameter::name);
    if (found == parameters.end()) {
      std::vector<std::string_view> names;
      for (const Parameter& parameter : parameters) names.push_back(parameter.name);
      require(false,
              fmt::format("{} has no parameter {}; it has: {}", name, in_quotes(key),
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    values[static_cast<std::size_t>(found - parameters.begin())] = value;
  }
  return plan(values);
}

std::span<const Indicator> indicators() {
  static const std::vector<Indicator> table = all();
  return table;
}

const Indicator& indicator(std::string_view name) {
  const auto table = indicators();
  const auto found = std::ranges::find_if(
      table, [&](const Indicator& one) { return same_letters(one.name, name); });
  if (found != table.end()) return *found;
  std::vector<std::string_view> names;
  for (const Indicator& one : table) names.push_back(one.name);
  throw Error(Code::not_found, fmt::format("there is no indicator {}; there are: {}",
                                           in_quotes(name), fmt::join(names, ", ")));
}

}  // namespace sluice::market
