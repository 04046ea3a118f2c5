#include "market/request/backtest_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/settings_value.h"
#include "market/backtest/report/report.h"
#include "market/backtest/sweep/set_code.h"
#include "market/input/require.h"
#include "market/request/dimension.h"
#include "market/request/request_context.h"

namespace sluice::market {

namespace {

constexpr double kMaxSets = 1e6;
constexpr std::array<std::string_view, 3> kSides{"long", "short", "both"};
constexpr std::array<std::string_view, 2> kFills{"next_open", "next_close"};
constexpr std::array<std::string_view, 3> kSizings{"fraction", "cash", "volatility"};

template <class All>
std::vector<std::string_view> names_of(const All& all) {
  std::vector<std::string_view> names;
  for (const auto each : all) names.push_back(to_string(each));
  return names;
}

Trading read_trading(const Json& json) {
  Fields f(json, "trading");
  Trading t;
  t.initial_cash = f.number("initial_cash", t.initial_cash);
  t.sides = static_cast<Sides>(f.one_of("sides", kSides, 0));
  t.fill = static_cast<Fill>(f.one_of("fill", kFills, 0));
  t.fee = f.number("fee", t.fee);
  t.fixed_fee = f.number("fixed_fee", t.fixed_fee);
  t.slippage = f.number("slippage", t.slippage);
  t.sizing = static_cast<Sizing>(f.one_of("sizing", kSizings, 0));
  t.fraction = f.number("fraction", t.fraction);
  t.cash = f.number("cash", t.cash);
  t.target_volatility = f.number("target_volatility", t.target_volatility);
  t.volatility_period =
      static_cast<std::int32_t>(f.integer("volatility_period", t.volatility_period, 1, 100000));
  t.max_leverage = f.number("max_leverage", t.max_leverage);
  t.stop_loss = f.number("stop_loss", t.stop_loss);
  t.take_profit = f.number("take_profit", t.take_profit);
  t.periods_per_year = f.number("periods_per_year", t.periods_per_year);
  t.risk_free = f.number("risk_free", t.risk_free);
  f.finish();
  validate(t);
  return t;
}

std::vector<ParameterSet> read_sets(Fields& fields, Strategy strategy) {
  std::vector<Axis> axes;
  double sets = 1;
  if (const Json* given = fields.find("parameters")) {
    Fields f(*given, "parameters");
    for (const StrategyParameter& parameter : parameters(strategy)) {
      const Json* value = f.find(parameter.name);
      if (value == nullptr) continue;
      const std::string name(parameter.name), path = f.path(name);
      if (value->is_string())
        axes.push_back(axis_from(name, value->get_ref<const std::string&>()));
      else if (value->is_number())
        axes.push_back({name, {value->get<double>()}});
      else
        axes.push_back({name, numbers_of(*value, path)});
      require(!axes.back().values.empty(), fmt::format("'{}' is empty", path));
      sets *= static_cast<double>(axes.back().values.size());
    }
    f.finish();
  }
  require(sets <= kMaxSets,
          fmt::format("'parameters' make {:.3g} sets; at most {:.3g}", sets, kMaxSets));
  return grid(strategy, axes);
}

void read_walk_forward(Fields& fields, StudyRequest& request) {
  const Json* given = fields.find("walk_forward");
  if (given == nullptr || *given == false) return;
  WalkForwardOptions made;
  const Json none = Json::object();
  Fields f(*given == true ? none : *given, "walk_forward");
  made.in_sample = f.integer("in_sample", made.in_sample, 1, 1LL << 40);
  made.out_of_sample = f.integer("out_of_sample", made.out_of_sample, 1, 1LL << 40);
  made.anchored = f.flag("anchored", false);
  f.finish();
  request.walk_forward = made;
}

void read_days(const Json& json, const std::string& path, PriceHistory& history) {
  if (!json.is_array()) refuse_field(path, "a list of dates", json);
  std::string_view before;
  for (const Json& date : json) {
    if (!date.is_string()) refuse_field(path, "a list of dates such as 2020-02-29", date);
    const std::string_view text = date.get_ref<const std::string&>();
    const Stamp stamp = stamp_from(text);
    history.intraday = history.intraday || stamp.timed;
    const bool same_day = !history.days.empty() && history.days.back() == stamp.day;
    if (same_day && text <= before)
      throw Error(Code::invalid_argument, fmt::format("'{}': {} is not after {}", path,
                                                      in_quotes(text), in_quotes(before)));
    history.days.push_back(stamp.day);
    before = text;
  }
}

PriceHistory history_of(Fields& f, std::string ticker) {
  PriceHistory history;
  history.ticker = std::move(ticker);
  if (const Json* dates = f.find("dates")) read_days(*dates, f.path("dates"), history);
  history.close = numbers_of(f.need("close", "a list of prices"), f.path("close"));
  history.open = f.numbers("open");
  history.high = f.numbers("high");
  history.low = f.numbers("low");
  Dimension bars("values");
  bars.agree(f.path("close"), history.close.size());
  if (f.has("dates")) bars.agree(f.path("dates"), history.days.size());
  if (f.has("open")) bars.agree(f.path("open"), history.open.size());
  if (f.has("high")) bars.agree(f.path("high"), history.high.size());
  if (f.has("low")) bars.agree(f.path("low"), history.low.size());
  return history;
}

// The number of indicator rows that the sets share, one for each period. An upper bound for many
// sets.
double distinct_rows(const StudyRequest& request) {
  constexpr std::size_t kMany = 100'000;
  const std::size_t sets = request.sweep.sets.size();
  if (sets > kMany) return 3 * static_cast<double>(sets);
  return static_cast<double>(plan_sweep(request.sweep.strategy, request.sweep.sets).rows.size());
}

}  // namespace

void read_rules(Fields& fields, StudyRequest& request) {
  auto& sweep = request.sweep;
  sweep.strategy = strategies()[fields.one_of("strategy", names_of(strategies()), 0)];
  sweep.metric = all_metrics()[fields.one_of("metric", names_of(all_metrics()), 0)];
  if (const Json* trading = fields.find("trading")) {
    sweep.trading = read_trading(*trading);
    request.fill_given = trading->contains("fill");
  }
  sweep.sets = read_sets(fields, sweep.strategy);
  read_walk_forward(fields, request);
  request.ticker = fields.text("ticker", "");
}

std::vector<PriceHistory> read_histories(Fields& fields) {
  const Json* prices = fields.find("prices");
  if (prices == nullptr) return {history_of(fields, "prices")};
  if (!prices->is_object()) refuse_field("prices", "an object of tickers", *prices);
  std::vector<PriceHistory> all;
  for (const auto& item : prices->items()) {
    throw_if_cancelled();
    if (is_list(item.value())) {
      all.push_back({.ticker = item.key(),
                     .close = numbers_of(item.value(), "prices." + short_name(item.key()))});
      continue;
    }
    Fields f(item.value(), "prices." + short_name(item.key()));
    all.push_back(history_of(f, item.key()));
    f.finish();
  }
  require(!all.empty(), "'prices' is empty");
  return all;
}

void settle(StudyRequest& request) {
  if (!request.fill_given &&
      std::ranges::any_of(request.histories, [](const auto& h) { return h.open.empty(); }))
    request.sweep.trading.fill = Fill::next_close;
}

double memory_of(const StudyRequest& request, int threads) {
  constexpr double kLevel = 24, kEnds = 64, kBarShown = 400;  // bytes of a bar
  constexpr double kSetBytes = 4000, kTickerBytes = 4000;
  double longest = 0;
  for (const auto& history : request.histories)
    longest = std::max(longest, static_cast<double>(history.size()));
  const auto tickers = static_cast<double>(request.histories.size());
  const double tables =
      longest * (kLevel * (1 + std::log2(longest + 1)) + kEnds + 8 * distinct_rows(request));
  return tables * std::min(tickers, static_cast<double>(threads)) + 4 * 8 * tickers * longest +
         kBarShown * longest + kSetBytes * static_cast<double>(request.sweep.sets.size()) +
         kTickerBytes * tickers;
}

double memory_of_page(const StudyRequest& request) {
  constexpr double kPage = 5e5, kPoint = 20, kWindow = 250, kTicker = 2000, kMaxTickers = 500;
  constexpr double kCopies = 3;  // the parts, their concatenation and the page
  double longest = 0;
  for (const auto& history : request.histories)
    longest = std::max(longest, static_cast<double>(history.size()));
  return kCopies * (kPage + (request.walk_forward ? kWindow : kPoint) * longest +
                    kTicker * std::min(static_cast<double>(request.histories.size()), kMaxTickers));
}

double work_of(const StudyRequest& request) {
  // Steps of one bar in one window apart from the sets: indicators and the account that is shown.
  constexpr double kBarOfWindow = 300;
  constexpr double kSetShown = 1e5;  // a set is some kilobytes of the answer
  constexpr double kTickerShown = 1e5, kBarShown = 2000;
  double bars = 0;
  for (const auto& history : request.histories) bars += static_cast<double>(history.size());
  const double rows = distinct_rows(request);
  const auto sets = static_cast<double>(request.sweep.sets.size());
  double longest = 0;  // any may be the one that is shown
  for (const auto& history : request.histories)
    longest = std::max(longest, static_cast<double>(history.size()));
  const double once = bars * (sets + rows) + kBarShown * longest + kSetShown * sets +
                      kTickerShown * static_cast<double>(request.histories.size());
  if (!request.walk_forward || request.histories.empty()) return once;
  const auto& w = *request.walk_forward;
  const auto size = static_cast<double>(request.histories[0].size());
  const auto in = std::min(static_cast<double>(w.in_sample), size);
  const double windows = std::max(0.0, (size - in) / static_cast<double>(w.out_of_sample));
  const double chosen_by = w.anchored ? (in + size) / 2 : in;  // bars, on average
  return once + windows * bars * (kBarOfWindow + sets * chosen_by / std::max(1.0, size));
}

Study run_study(compute::Compute& compute, const StudyRequest& request,
                const StudyProgress& progress) {
  const auto report = [&](double share, const std::string& what) {
    if (progress) progress(share, what);
  };
  const auto shown = std::ranges::find(request.histories, request.ticker, &PriceHistory::ticker);
  require(request.ticker.empty() || shown != request.histories.end(),
          fmt::format("no ticker is named {}", in_quotes(request.ticker)));
  SweepOptions options = request.sweep;
  options.progress = [&](const SweepProgress& p) {
    report(static_cast<double>(p.done) / static_cast<double>(std::max<std::size_t>(1, p.total)),
           fmt::format("sweep: {} of {}, {:.3g} bars x sets/s", p.done, p.total,
                       p.bar_sets / std::max(1e-9, p.seconds)));
  };
  Study study{sweep(compute, request.histories, options), {}};
  study.shown = run_backtest(request.ticker.empty() ? request.histories[0] : *shown,
                             {options.strategy, study.sweep.sets[study.sweep.best()].parameters,
                              options.trading, options.span});
  if (study.sweep.sets.size() > 1)
    study.deflated_sharpe = deflated_sharpe(study.sweep, study.shown);
  if (request.walk_forward) {
    WalkForwardOptions walk = *request.walk_forward;
    walk.sweep = request.sweep;
    walk.progress = [&](std::size_t done, std::size_t windows) {
      report(static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(1, windows)),
             fmt::format("walk-forward: window {} of {}", done, windows));
    };
    study.walk_forward = walk_forward(compute, request.histories, walk);
  }
  return study;
}

Json to_json(const Study& study) {
  Json all = {{"backtest", to_json(study.shown)}};
  if (study.sweep.sets.size() > 1 || study.sweep.tickers.size() > 1)
    all["sweep"] = to_json(study.sweep);
  if (study.deflated_sharpe) all["deflated_sharpe"] = to_json(*study.deflated_sharpe);
  if (study.walk_forward) all["walk_forward"] = to_json(*study.walk_forward, study.sweep.strategy);
  return all;
}

std::string to_page(const Study& study) {
  const bool several = study.sweep.sets.size() > 1 || study.sweep.tickers.size() > 1;
  return to_html({&study.shown, several ? &study.sweep : nullptr,
                  study.walk_forward ? &*study.walk_forward : nullptr});
}

Json answer_backtest(RequestContext& context) {
  StudyRequest request;
  read_rules(context.fields, request);
  request.sweep.device = context.device;
  request.histories = read_histories(context.fields);
  settle(request);
  const bool html = context.fields.flag("html", false);
  context.fields.finish();
  context.check_work(work_of(request), "the bars and 'parameters'");
  context.charge(memory_of(request, context.compute.workers().threads()) +
                     (html ? memory_of_page(request) : 0),
                 "the bars and 'parameters'");
  const Study study = run_study(context.compute, request);
  Json answer = to_json(study);
  if (html) answer["html"] = to_page(study);
  if (context.explain) answer["ran"] = {{"reason", study.sweep.ran_on}};
  return answer;
}

}  // namespace sluice::market
