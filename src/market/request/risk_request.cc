// {"prices": {"AAPL": [...], "MSFT": [...]}, "benchmark": [...], "cutoff": 0.05}
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/request/request_context.h"
#include "market/request/returns.h"
#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/simulated_tail.h"
#include "market/risk/tail.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 2> kConventions{"empyrical", "quantlib"};
constexpr std::array<std::string_view, 3> kTails{"historical", "parametric", "simulated"};
constexpr std::int64_t kMaxPaths = 1 << 25;  // all ends are kept: 256 MiB

struct RiskRequest {
  Returns data;
  std::vector<double> benchmark;
  RiskOptions options;
  TailOptions tail;
  SimulatedTailOptions simulated;
  bool simulate = false, covariance = false;
  CovarianceOptions matrix;
};

void read_tail(RequestContext& context, RiskRequest& request) {
  Fields& f = context.fields;
  request.tail.cutoff = f.number("cutoff", 0.05, 1e-6, 0.999999);
  request.tail.convention = static_cast<TailConvention>(f.one_of("convention", kConventions, 0));
  request.simulate = f.flag("simulate", false);
  request.simulated = {
      .convention = request.tail.convention,
      .cutoff = request.tail.cutoff,
      .horizon = f.number("horizon", 1, 1e-6, 1e6),
      .paths = static_cast<std::uint64_t>(f.integer("paths", 1 << 20, 4, kMaxPaths)),
      .seed = static_cast<std::uint64_t>(f.integer("seed", 42, 0, 1LL << 53))};
  if (!request.simulate) return;
  constexpr double kPath = 50;  // work units: a random number, its exponential, its rank
  const auto paths = static_cast<double>(request.simulated.paths);
  context.check_work(kPath * paths * static_cast<double>(request.data.panel.series()),
                     "'paths' and the number of series");
  context.charge(16 * paths, "'paths'");
}

// Metrics and tails of each series, and its part of the answer.
void check_cost(RequestContext& context, const Panel& panel) {
  constexpr double kBar = 20, kSeries = 1.5e4, kSeriesBytes = 4096;
  const auto series = static_cast<double>(panel.series());
  const double values = static_cast<double>(panel.values.size());
  context.check_work(kBar * values + kSeries * series, "so many series and bars");
  context.charge(8 * values + kSeriesBytes * series, "so many series and bars");
}

RiskRequest read_risk_request(RequestContext& context) {
  RiskRequest request;
  Fields& f = context.fields;
  request.data = read_returns(context);
  request.options = {.input = RiskInput::returns,
                     .periods_per_year = f.number("periods_per_year", 252, 1e-6, 1e9),
                     .risk_free = f.number("risk_free", 0),
                     .required_return = f.number("required_return", 0),
                     .ddof = f.number("ddof", 1, 0, 1e6)};
  if (const Json* benchmark = f.find("benchmark"))
    request.benchmark = benchmark_returns(*benchmark, request.data);
  read_tail(context, request);
  request.covariance = f.has("covariance");
  request.matrix = read_covariance(context, request.options.periods_per_year);
  f.finish();
  check_cost(context, request.data.panel);
  if (request.covariance) check_covariance_cost(context, request.data.panel);
  return request;
}

Json to_json(const RiskMetrics& m) {
  const auto bar = [](std::int64_t at) { return at < 0 ? Json(nullptr) : Json(at); };
  return {{"count", m.count},
          {"total_return", number_or_null(m.total_return)},
          {"annual_return", number_or_null(m.annual_return)},
          {"mean", number_or_null(m.mean)},
          {"volatility", number_or_null(m.volatility)},
          {"downside_deviation", number_or_null(m.downside_deviation)},
          {"sharpe", number_or_null(m.sharpe)},
          {"sortino", number_or_null(m.sortino)},
          {"calmar", number_or_null(m.calmar)},
          {"max_drawdown", number_or_null(m.max_drawdown)},
          {"skew", number_or_null(m.skew)},
          {"kurtosis", number_or_null(m.kurtosis)},
          {"alpha", number_or_null(m.alpha)},
          {"beta", number_or_null(m.beta)},
          {"peak", bar(m.peak)},
          {"trough", bar(m.trough)},
          {"recovery", bar(m.recovery)}};
}

void add_tails(RequestContext& context, const RiskRequest& request, std::vector<Json>& series) {
  const Panel& panel = request.data.panel;
  std::vector<TailRisk> found(panel.series());
  for (const std::size_t method : {std::size_t{0}, std::size_t{1}}) {
    TailOptions options = request.tail;
    options.method = static_cast<TailMethod>(method);
    tail_risk(context.compute, panel.values, panel.bars, found, options, context.device);
    for (std::size_t i = 0; i < panel.series(); ++i) {
      throw_if_cancelled();
      auto& one = series[i];
      one["var_" + std::string(kTails[method])] = number_or_null(found[i].var);
      one["cvar_" + std::string(kTails[method])] = number_or_null(found[i].cvar);
    }
  }
  if (!request.simulate) return;
  for (std::size_t i = 0; i < panel.series(); ++i) {
    const auto tail =
        simulated_tail(context.compute, panel.at(i), request.simulated, context.device);
    series[i]["var_simulated"] = number_or_null(tail.var);
    series[i]["cvar_simulated"] = number_or_null(tail.cvar);
  }
}

}  // namespace

Json answer_risk(RequestContext& context) {
  const RiskRequest request = read_risk_request(context);
  const Panel& panel = request.data.panel;
  std::vector<RiskMetrics> metrics(panel.series(), RiskMetrics{});
  const auto outcome = risk_metrics(context.compute, panel.values, panel.bars, request.benchmark,
                                    metrics, request.options, context.device);
  std::vector<Json> each;
  for (const RiskMetrics& one : metrics) {
    throw_if_cancelled();
    each.push_back(to_json(one));
  }
  add_tails(context, request, each);
  Json series = Json::object();
  for (std::size_t i = 0; i < each.size(); ++i) {
    throw_if_cancelled();
    append_member(series, panel.names[i], std::move(each[i]));
  }
  Json answer = {{"periods_per_year", request.options.periods_per_year},
                 {"cutoff", request.tail.cutoff},
                 {"convention", kConventions[static_cast<std::size_t>(request.tail.convention)]},
                 {"series", std::move(series)}};
  if (request.covariance)
    answer["covariance"] = matrix_json(covariance_of(context, panel, request.matrix));
  context.report_run(answer, outcome);
  return answer;
}

}  // namespace sluice::market
