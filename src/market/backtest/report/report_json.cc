#include <cmath>
#include <nlohmann/json.hpp>

#include "market/backtest/report/report.h"

namespace sluice::market {
namespace {

using nlohmann::json;

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json named(Strategy strategy, const ParameterSet& set) {
  json values = json::object();
  const auto all = parameters(strategy);
  for (std::size_t i = 0; i < all.size(); ++i) values[std::string(all[i].name)] = set[i];
  return values;
}

json dates(const std::vector<std::int32_t>& days) {
  json all = json::array();
  for (const auto day : days) all.push_back(to_date(day));
  return all;
}

json trade_json(const Trade& t, const Backtest& b) {
  json one = {{"side", t.side > 0 ? "long" : "short"},
              {"entry_bar", t.entry_bar},
              {"exit_bar", t.exit_bar},
              {"quantity", t.quantity},
              {"entry_price", t.entry_price},
              {"exit_price", t.exit_price},
              {"profit", t.profit},
              {"profit_rate", t.profit_rate},
              {"exit", to_string(t.exit)}};
  if (b.days.empty()) return one;
  const auto at = [&](std::int64_t bar) {
    return to_date(b.days[static_cast<std::size_t>(bar - b.options.span.first + 1)]);
  };
  one["entry_date"] = at(t.entry_bar);
  one["exit_date"] = at(t.exit_bar);
  return one;
}

}  // namespace

json to_json(const Metrics& metrics) {
  json all = json::object();
  for (const Metric metric : all_metrics())
    all[std::string(to_string(metric))] = number(value(metrics, metric));
  all["trades"] = metrics.trades;
  return all;
}

json to_json(const Trading& t) {
  static constexpr const char* kSides[] = {"long", "short", "both"};
  static constexpr const char* kSizing[] = {"fraction", "cash", "volatility"};
  return {{"initial_cash", t.initial_cash},
          {"sides", kSides[static_cast<int>(t.sides)]},
          {"fill", t.fill == Fill::next_open ? "next_open" : "next_close"},
          {"fee", t.fee},
          {"fixed_fee", t.fixed_fee},
          {"slippage", t.slippage},
          {"sizing", kSizing[static_cast<int>(t.sizing)]},
          {"fraction", t.fraction},
          {"cash", t.cash},
          {"target_volatility", t.target_volatility},
          {"volatility_period", t.volatility_period},
          {"max_leverage", t.max_leverage},
          {"stop_loss", t.stop_loss},
          {"take_profit", t.take_profit},
          {"periods_per_year", t.periods_per_year},
          {"risk_free", t.risk_free}};
}

json to_json(const Backtest& b) {
  json trades = json::array();
  for (const Trade& trade : b.trades) trades.push_back(trade_json(trade, b));
  return {{"ticker", b.ticker},
          {"strategy", to_string(b.options.strategy)},
          {"parameters", named(b.options.strategy, b.options.parameters)},
          {"trading", to_json(b.options.trading)},
          {"metrics", to_json(b.metrics)},
          {"buy_and_hold", to_json(b.hold_metrics)},
          {"first_bar", b.options.span.first - 1},
          {"dates", dates(b.days)},
          {"equity", b.equity},
          {"hold", b.hold},
          {"trades", std::move(trades)}};
}

json to_json(const SweepResult& r) {
  json sets = json::array(), tickers = json::array();
  for (const auto& set : r.sets)
    sets.push_back(
        {{"parameters", named(r.strategy, set.parameters)}, {"metrics", to_json(set.metrics)}});
  for (const auto& ticker : r.tickers)
    tickers.push_back({{"ticker", ticker.ticker},
                       {"best", named(r.strategy, r.sets[ticker.best].parameters)},
                       {"metrics", to_json(ticker.metrics)}});
  return {{"strategy", to_string(r.strategy)},
          {"trading", to_json(r.trading)},
          {"metric", to_string(r.metric)},
          {"trials", r.sets.size()},
          {"best", named(r.strategy, r.sets[r.best()].parameters)},
          {"bar_sets", r.bar_sets},
          {"seconds", r.seconds},
          {"ran_on", r.ran_on},
          {"sets", std::move(sets)},
          {"tickers", std::move(tickers)}};
}

json to_json(const WalkForward& w, Strategy strategy) {
  json windows = json::array();
  for (const auto& window : w.windows)
    windows.push_back({{"chosen_by", {window.chosen_by.first, window.chosen_by.end}},
                       {"traded", {window.traded.first, window.traded.end}},
                       {"parameters", named(strategy, window.parameters)},
                       {"in_sample", to_json(window.in_sample)},
                       {"out_of_sample", to_json(window.out_of_sample)}});
  return {{"windows", std::move(windows)},
          {"metrics", to_json(w.metrics)},
          {"efficiency", number(w.efficiency)},
          {"dates", dates(w.days)},
          {"equity", w.equity}};
}

json to_json(const DeflatedSharpe& check) {
  return {{"trials", check.trials},
          {"sharpe", check.sharpe},
          {"expected_max_sharpe", check.expected_max_sharpe},
          {"probability", check.probability}};
}

}  // namespace sluice::market
