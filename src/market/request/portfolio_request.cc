// {"prices": {...}} or {"mean": [...], "covariance": [[...]], "names": [...]}, and a goal.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/json_numbers.h"
#include "base/settings_value.h"
#include "market/portfolio/cvar.h"
#include "market/portfolio/portfolio.h"
#include "market/request/dimension.h"
#include "market/request/returns.h"
#include "market/risk/metrics.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 10> kGoals{
    "min_volatility",        "max_sharpe",  "target_return", "target_risk",
    "max_quadratic_utility", "risk_parity", "min_cvar",      "cvar_target_return",
    "cvar_target_risk",      "frontier"};
enum : std::size_t {
  kMaxSharpe = 1,
  kTargetReturn,
  kTargetRisk,
  kUtility,
  kRiskParity,
  kMinCvar,
  kCvarTargetReturn,
  kCvarTargetRisk,
  kFrontier
};

constexpr std::size_t kMaxSectors = 1000;

struct Problem {
  Dimension count{"assets"};
  std::vector<std::string> names;
  std::vector<double> mean, covariance;
  Panel returns;  // empty when moments were given
  std::size_t goal = 1, points = 20;
  double value = 0, risk_free = 0, beta = 0.95;
  std::vector<double> shares;
  PortfolioLimits limits;

  Assets assets() const { return {mean, covariance, names}; }
};

std::vector<double> yearly_means(const RequestContext& context, const Panel& returns,
                                 double periods) {
  std::vector<RiskMetrics> metrics(returns.series(), RiskMetrics{});
  risk_metrics(context.compute, returns.values, returns.bars, {}, metrics,
               {.periods_per_year = periods}, context.device);
  std::vector<double> means;
  for (const RiskMetrics& one : metrics) means.push_back(one.annual_return);
  return means;
}

// One number for each asset; empty when it is not there.
std::vector<double> one_each(Fields& f, std::string_view name, Problem& p) {
  auto values = f.numbers(name);
  if (f.has(name)) p.count.agree(name, values.size());
  return values;
}

void read_moments(RequestContext& context, Problem& p) {
  Fields& f = context.fields;
  const Panel matrix = panel_of(f.need("covariance", "lists of numbers, a row each"), "covariance");
  p.count.agree("covariance", matrix.series());
  p.count.agree("covariance[0]", matrix.bars);
  p.covariance = matrix.values;
  p.mean = one_each(f, "mean", p);
  if (const Json* names = f.find("names")) {
    if (!names->is_array()) refuse_field("names", "a list of texts", *names);
    p.count.agree("names", names->size());  // before they are copied
    for (const Json& name : *names) {
      if (!name.is_string()) refuse_field("names", "a list of texts", name);
      p.names.push_back(name.get<std::string>());
    }
    std::set<std::string_view> known;
    for (const auto& name : p.names)
      if (!known.insert(name).second)
        throw Error(Code::invalid_argument, fmt::format("'names' has {} twice", in_quotes(name)));
  }
  for (std::size_t i = p.names.size(); i < matrix.bars; ++i)
    p.names.push_back("asset " + std::to_string(i));
}

bool by_cuts(const Problem& p) { return p.goal >= kMinCvar && p.goal <= kCvarTargetRisk; }

void read_data(RequestContext& context, Problem& p) {
  Fields& f = context.fields;
  if (!f.has("prices") && !f.has("returns")) return read_moments(context, p);
  p.returns = read_returns(context).panel;
  p.count.agree(f.has("prices") ? "prices" : "returns", p.returns.series());
  const double periods = f.number("periods_per_year", 252, 1e-6, 1e9);
  p.names = p.returns.names;
  if (!by_cuts(p)) {
    const auto options = read_covariance(context, periods);
    check_covariance_cost(context, p.returns);
    p.covariance = covariance_of(context, p.returns, options);
  }
  p.mean = one_each(f, "mean", p);
  if (p.mean.empty()) p.mean = yearly_means(context, p.returns, periods);
}

using AssetNumbers = std::unordered_map<std::string_view, std::size_t>;  // by name

std::size_t asset_of(const Json& json, const AssetNumbers& numbers, const std::string& path) {
  const double number = json.is_number() ? json.get<double>() : -1;
  if (number >= 0 && number < static_cast<double>(numbers.size()) && number == std::floor(number))
    return static_cast<std::size_t>(number);
  const auto found =
      json.is_string() ? numbers.find(json.get_ref<const std::string&>()) : numbers.end();
  if (found == numbers.end()) refuse_field(path, "the name or number of an asset", json);
  return found->second;
}

SectorLimit sector_of(const Json& json, std::size_t number, const AssetNumbers& numbers) {
  Fields f(json, fmt::format("sectors[{}]", number));
  SectorLimit sector;
  sector.name = f.text("name", "sector " + std::to_string(number));
  const Json& assets = f.need("assets", "a list of assets");
  if (!is_list(assets)) refuse_field(f.path("assets"), "a list of assets", assets);
  const std::size_t count = is_packed(assets) ? count_in(assets) : assets.size();
  require(count <= numbers.size(),
          fmt::format("'{}' has {} assets; there are {}", f.path("assets"), count, numbers.size()));
  for (const Json& asset : unpacked(assets))
    sector.assets.push_back(asset_of(asset, numbers, f.path("assets")));
  sector.min = f.number("min", -kNoLimit);
  sector.max = f.number("max", kNoLimit);
  f.finish();
  return sector;
}

// A number for all, or a list.
std::vector<double> bound(Fields& f, std::string_view name, double default_value, Problem& p) {
  const Json* found = f.find(name);
  if (found == nullptr || found->is_number()) return {f.number(name, default_value)};
  auto one = numbers_of(*found, f.path(name));
  return one.size() == 1 ? std::move(one) : one_each(f, name, p);
}

void read_limits(RequestContext& context, Problem& p) {
  Fields& f = context.fields;
  p.limits.lower = bound(f, "lower", 0, p);
  p.limits.upper = bound(f, "upper", 1, p);
  p.limits.sum = f.number("sum", 1);
  require(!f.has("held") || f.has("turnover"), "'held' is of no use without 'turnover'");
  p.limits.held = one_each(f, "held", p);
  if (f.has("turnover")) p.limits.turnover = f.number("turnover", 0, 0);
  if (f.has("leverage")) p.limits.leverage = f.number("leverage", 0, 0);
  f.find("turnover");
  f.find("leverage");
  if (!by_cuts(p)) p.limits.l2 = f.number("l2", 0, 0);
  const Json* sectors = f.find("sectors");
  if (sectors == nullptr) return;
  if (!sectors->is_array()) refuse_field("sectors", "a list of objects", *sectors);
  AssetNumbers numbers;
  for (const auto& name : p.names) numbers.emplace(name, numbers.size());
  require(sectors->size() <= kMaxSectors,
          fmt::format("'sectors' has {} sectors; at most {}", sectors->size(), kMaxSectors));
  for (const Json& sector : *sectors) {
    throw_if_cancelled();
    p.limits.sectors.push_back(sector_of(sector, p.limits.sectors.size(), numbers));
  }
}

// Reads fields that only some goals have, so that other goals reject them.
void read_goal(Fields& f, Problem& p) {
  const auto is = [&](auto... goals) { return ((p.goal == goals) || ...); };
  if (is(kTargetReturn, kTargetRisk, kUtility, kCvarTargetReturn, kCvarTargetRisk)) {
    f.need("value", p.goal == kUtility ? "the aversion to risk" : "the target");
    p.value = f.number("value", 0);
  }
  if (p.goal == kRiskParity) p.shares = one_each(f, "shares", p);
  if (p.goal == kFrontier) p.points = static_cast<std::size_t>(f.integer("points", 20, 2, 1000));
  if (is(kMinCvar, kCvarTargetReturn, kCvarTargetRisk))
    p.beta = f.number("beta", 0.95, 1e-6, 1 - 1e-6);
}

// Returns the number of quadratic programs that a goal solves.
double programs_of(const Problem& p) {
  switch (p.goal) {
    case kFrontier: return static_cast<double>(p.points);
    case kTargetRisk: return 10;
    case kMaxSharpe:
    case kTargetReturn: return 2;
    default: return 1;
  }
}

double cuts_of(const Problem& p) {
  return by_cuts(p) ? expected_cuts(static_cast<double>(p.names.size()),
                                    static_cast<double>(p.returns.bars))
                    : 0;
}

// Turnover and leverage have a distance for each asset, and two limits for each distance.
double distances_of(const Problem& p) {
  return static_cast<double>(p.names.size()) *
         ((p.limits.turnover ? 1 : 0) + (p.limits.leverage ? 1 : 0));
}

double width_of(const Problem& p) { return static_cast<double>(p.names.size()) + distances_of(p); }

// The width of the search for conflicting limits when no portfolio is found; 0: no search.
double search_width_of(const Problem& p) {
  double limits = 2 + 2 * distances_of(p);
  for (const SectorLimit& sector : p.limits.sectors)
    limits += (sector.min > -kNoLimit ? 1 : 0) + (sector.max < kNoLimit ? 1 : 0);
  const double widest = kMaxSearchWidth, wide = width_of(p) + limits;
  return wide > widest ? 0 : std::min(widest, wide + cuts_of(p));
}

double search_work_of(const Problem& p) {
  const double wide = search_width_of(p);
  if (p.goal != kMaxSharpe || wide == 0) return std::pow(wide, 3);
  // A second one is over multiples of the weights, where a weight's limits are rows too.
  const double all = wide + 2 * static_cast<double>(p.names.size());
  return std::pow(wide, 3) + std::pow(std::min<double>(kMaxSearchWidth, all), 3);
}

double fixed_weights(const Problem& p) {
  const auto at = [](const std::vector<double>& v, std::size_t i) {
    return v.size() == 1 ? v[0] : v[i];
  };
  double fixed = 0;
  for (std::size_t i = 0; i < p.names.size(); ++i)
    fixed += at(p.limits.lower, i) == at(p.limits.upper, i) ? 1 : 0;
  return fixed;
}

// Returns the work of the rounds of the solver, each with a factoring, a solution for each fixed
// weight, and the rows of several weights.
double work_of(const Problem& p) {
  constexpr double kRounds = 30, kRow = 100;
  const auto n = static_cast<double>(p.names.size());
  const double wide = width_of(p);
  double rows = wide * wide * (wide / 4 + fixed_weights(p));
  for (const SectorLimit& sector : p.limits.sectors)
    rows += kRow + std::pow(static_cast<double>(sector.assets.size() + 1), 2);
  const double plain = rows * kRounds * programs_of(p);
  const double search = search_work_of(p) / 4 * kRounds;
  if (!by_cuts(p)) return plain + search;
  const auto scenarios = static_cast<double>(p.returns.bars);
  const double cuts = cuts_of(p);
  return cuts * (plain + kRounds * cuts / 2 * (wide + 1) * (wide + 1) + 4 * n * scenarios) + search;
}

// Weights and shares of the risk by name, of each portfolio.
double memory_of_answer(const Problem& p) {
  constexpr double kBoth = 300, kTwice = 2;
  double names = 0;
  for (const auto& name : p.names) names += static_cast<double>(name.size());
  const double portfolios = p.goal == kFrontier ? static_cast<double>(p.points) : 1;
  return portfolios * (kBoth * static_cast<double>(p.names.size()) + kTwice * names);
}

double memory_of(const Problem& p) {
  const auto n = static_cast<double>(p.names.size());
  const double wide = width_of(p);
  double terms = 0;
  for (const SectorLimit& sector : p.limits.sectors)
    terms += static_cast<double>(sector.assets.size()) + 8;
  // Matrices of the solver and of the search, rows, a copy of the scenarios.
  return 6 * 8 * wide * wide + 3 * 8 * std::pow(search_width_of(p), 2) +
         3 * 16 * (terms + cuts_of(p) * n) + 16 * static_cast<double>(p.returns.values.size()) +
         memory_of_answer(p);
}

Problem read_problem(RequestContext& context) {
  Problem p;
  Fields& f = context.fields;
  p.goal = f.one_of("goal", kGoals, 1);
  read_data(context, p);
  if (!by_cuts(p)) p.risk_free = f.number("risk_free", 0);
  read_goal(f, p);
  read_limits(context, p);
  f.finish();
  context.check_work(work_of(p), p.returns.values.empty() ? "so many assets and sectors"
                                                          : "so many assets, bars and sectors");
  context.charge(memory_of(p), "so many assets, bars and sectors");
  return p;
}

Json weights_of(const Problem& p, std::span<const double> weights) {
  Json all = Json::object();
  for (std::size_t i = 0; i < weights.size(); ++i) append_member(all, p.names[i], weights[i]);
  return all;
}

Json to_json(const Problem& p, const Portfolio& one) {
  Json shares = Json::object();
  const auto parts = risk_shares(p.covariance, one.weights);
  for (std::size_t i = 0; i < parts.size(); ++i)
    append_member(shares, p.names[i], number_or_null(parts[i]));
  return {{"expected_return", number_or_null(one.expected_return)},
          {"volatility", number_or_null(one.volatility)},
          {"sharpe", number_or_null(one.sharpe)},
          {"weights", weights_of(p, one.weights)},
          {"risk_shares", std::move(shares)}};
}

Json by_cvar(const Problem& p) {
  require(!p.returns.values.empty(), "goals of CVaR need 'prices' or 'returns': the scenarios");
  std::vector<double> scenarios = p.returns.values;
  const CvarGoal goal{static_cast<CvarGoal::Kind>(p.goal - kMinCvar), p.value, p.beta};
  const auto found = optimise_cvar({p.mean, scenarios, p.names}, goal, p.limits);
  return {{"expected_return", number_or_null(found.expected_return)},
          {"cvar", found.cvar},
          {"beta", p.beta},
          {"weights", weights_of(p, found.weights)}};
}

Json by_variance(const Problem& p) {
  const Goal goal{static_cast<Goal::Kind>(p.goal), p.value, p.risk_free, p.shares};
  return to_json(p, optimise(p.assets(), goal, p.limits));
}

}  // namespace

Json answer_portfolio(RequestContext& context) {
  const Problem p = read_problem(context);
  Json answer = {{"goal", kGoals[p.goal]}, {"risk_free", p.risk_free}};
  if (p.goal == kFrontier) {
    Json& frontier = answer["frontier"] = Json::array();
    for (const Portfolio& one : efficient_frontier(p.assets(), p.points, p.limits, p.risk_free)) {
      throw_if_cancelled();
      frontier.push_back(to_json(p, one));
    }
  } else {
    answer.update(by_cuts(p) ? by_cvar(p) : by_variance(p));
  }
  if (context.explain) answer["ran"] = {{"on", "cpu"}, {"reason", "solvers run on the CPU"}};
  return answer;
}

}  // namespace sluice::market
