// {"payoff": "barrier", "spot": 100, "strike": 100, "barrier": "down_and_out", "level": 90}
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "market/montecarlo/asian.h"
#include "market/montecarlo/paths.h"
#include "market/request/dimension.h"
#include "market/request/request_context.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 9> kPayoffs{
    "european",          "asian_price", "asian_strike", "barrier", "lookback_fixed",
    "lookback_floating", "basket",      "best_of",      "asian"};
enum : std::size_t {
  kBarrier = 3,
  kLookbackFixed,
  kLookbackFloating,
  kBasket,
  kBestOf,
  kFastAsian
};
constexpr std::array<std::string_view, 4> kBarriers{"down_and_out", "up_and_out", "down_and_in",
                                                    "up_and_in"};

Asset asset_of(Fields& f) {
  return {f.number("spot", 100), f.number("div_yield", 0), f.number("vol", 0.2)};
}

void read_assets(RequestContext& context, PathModel& model, Dimension& count) {
  const Json* list = context.fields.find("assets");
  if (list == nullptr) {
    model.assets = {asset_of(context.fields)};
    return;
  }
  if (!list->is_array()) refuse_field("assets", "a list of objects", *list);
  require(list->size() <= std::size_t{kMaxAssets},
          fmt::format("'assets' has {} assets; at most {}", list->size(), kMaxAssets));
  count.agree("assets", list->size());
  model.assets.clear();
  for (const Json& each : *list) {
    Fields f(each, fmt::format("assets[{}]", model.assets.size()));
    model.assets.push_back(asset_of(f));
    f.finish();
  }
  const Json* correlation = context.fields.find("correlation");
  if (correlation == nullptr) return;
  const Panel matrix = panel_of(*correlation, "correlation");
  count.agree("correlation", matrix.series());
  count.agree("correlation[0]", matrix.bars);
  model.correlation = matrix.values;
}

void read_heston(RequestContext& context, PathModel& model) {
  const Json* found = context.fields.find("heston");
  if (found == nullptr) return;
  Fields f(*found, "heston");
  model.stochastic_volatility = true;
  const Heston defaults;
  model.heston = {f.number("v0", defaults.v0), f.number("kappa", defaults.kappa),
                  f.number("theta", defaults.theta), f.number("sigma", defaults.sigma),
                  f.number("rho", defaults.rho)};
  f.finish();
}

PathModel read_model(RequestContext& context, Dimension& assets) {
  PathModel model;
  Fields& f = context.fields;
  model.rate = f.number("rate", 0);
  model.t = f.number("t", 1);
  model.steps = static_cast<int>(f.integer("steps", 1, 1, 100000));
  model.first = f.number("first", -1);
  read_assets(context, model, assets);
  read_heston(context, model);
  return model;
}

std::array<double, kMaxAssets> read_weights(Fields& f, std::size_t assets, Dimension& count) {
  const auto given = f.numbers("weights");
  if (!given.empty()) count.agree("weights", given.size());
  std::array<double, kMaxAssets> weights{};
  for (std::size_t i = 0; i < std::min(assets, weights.size()); ++i) {
    weights[i] = given.empty() ? 1.0 / static_cast<double>(assets) : given[i];
    require(std::isfinite(weights[i]), fmt::format("'weights[{}]' is missing", i));
  }
  return weights;
}

// Fields that the payoff has no use for stay unread, and are refused like any unknown one.
PathPayoff read_payoff(RequestContext& context, std::size_t payoff, std::size_t assets,
                       Dimension& count) {
  Fields& f = context.fields;
  PathPayoff made;
  made.payoff = payoff == kFastAsian ? Payoff::asian_price : static_cast<Payoff>(payoff);
  made.kind = static_cast<OptionKind>(f.one_of("kind", kOptionKinds, 0));
  made.strike = f.number("strike", 100);
  const bool lookback = payoff == kLookbackFixed || payoff == kLookbackFloating;
  if (payoff == kBarrier) {
    made.barrier = static_cast<Barrier>(f.one_of("barrier", kBarriers, 0));
    f.need("level", "the price at which the barrier is");
    made.level = f.number("level", 0);
    made.rebate = f.number("rebate", 0);
  }
  if (payoff == kBarrier || lookback) made.continuous = f.flag("continuous", false);
  if (lookback) made.extreme = f.number("extreme", 0);
  if (payoff == kBasket) made.weights = read_weights(f, assets, count);
  require(assets == 1 || payoff == kBasket || payoff == kBestOf,
          fmt::format("'payoff' {} is for one asset; take basket or best_of", kPayoffs[payoff]));
  return made;
}

SimulationOptions read_simulation(RequestContext& context, std::size_t payoff) {
  Fields& f = context.fields;
  SimulationOptions made;
  made.paths = static_cast<std::uint64_t>(f.integer("paths", 1 << 20, 1, 1LL << 40));
  made.seed = static_cast<std::uint64_t>(f.integer("seed", 42, 0, 1LL << 53));
  made.antithetic = f.flag("antithetic", true);
  made.control_variate = f.flag("control_variate", true);
  made.sobol = f.flag("sobol", false);
  require(!made.sobol || payoff != kFastAsian,
          "'sobol' is not for 'payoff' asian; take asian_price");
  return made;
}

// Returns the option with fixings at equal steps up to t, which asian() prices fast.
AsianOption asian_of(const PathModel& model, const PathPayoff& payoff) {
  require(model.assets.size() == 1 && !model.stochastic_volatility,
          "'payoff' asian is for one asset of constant volatility; take asian_price");
  const double step = model.t / model.steps, first = model.first < 0 ? step : model.first;
  const Asset& asset = model.assets[0];
  return {payoff.kind, asset.spot,  payoff.strike, model.rate,      asset.div_yield,
          asset.vol,   model.steps, first,         model.t - first, model.t};
}

// These were measured; random numbers are most of the cost.
constexpr double kFastPath = 4;
double work_of_path(const PathModel& model, const PathPayoff& payoff,
                    const SimulationOptions& simulation) {
  constexpr double kEnd = 30, kStep = 2, kBridge = 9, kNormal = 8, kSobolNormal = 60, kMixed = 0.1;
  const auto assets = static_cast<double>(model.assets.size());
  const double normals = model.stochastic_volatility ? 2 : assets;
  const double step = kStep + (payoff.continuous ? kBridge : 0) + kMixed * assets * assets +
                      normals * (simulation.sobol ? kSobolNormal : kNormal);
  return kEnd + assets * kNormal + model.steps * step;
}

Json to_json(const Estimate& e) {
  constexpr double kQuantile = 1.959963984540054;  // of 97.5 %
  const double half = kQuantile * e.standard_error;
  return {{"price", number_or_null(e.price)},
          {"standard_error", number_or_null(e.standard_error)},
          {"confidence_95", {number_or_null(e.price - half), number_or_null(e.price + half)}},
          {"paths", e.paths},
          {"control_beta", number_or_null(e.beta)}};
}

}  // namespace

Json answer_montecarlo(RequestContext& context) {
  const std::size_t payoff = context.fields.one_of("payoff", kPayoffs, 0);
  Dimension count("assets");
  const PathModel model = read_model(context, count);
  count.agree("assets", model.assets.size());  // one, where there is no list of them
  const PathPayoff paid = read_payoff(context, payoff, model.assets.size(), count);
  const SimulationOptions simulation = read_simulation(context, payoff);
  context.fields.finish();
  const auto paths = static_cast<double>(payoff == kFastAsian ? simulated_asian_paths(simulation)
                                                              : simulated_paths(simulation));
  context.check_work(paths * (payoff == kFastAsian ? kFastPath + model.steps
                                                   : work_of_path(model, paid, simulation)),
                     "'paths', 'steps' and the assets");
  context.charge(paths, "'paths'");  // sums of blocks of them, and little else
  const Estimate found =
      payoff == kFastAsian
          ? asian(context.compute, asian_of(model, paid), simulation, context.device)
          : simulate(context.compute, model, paid, simulation, context.device);
  Json answer = {{"payoff", kPayoffs[payoff]},
                 {"kind", kOptionKinds[static_cast<std::size_t>(paid.kind)]}};
  answer.update(to_json(found));
  context.report_run(answer, found.outcome);
  return answer;
}

}  // namespace sluice::market
