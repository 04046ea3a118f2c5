// {"spot": 100, "strike": [90, 100], "t": 0.5, "rate": 0.03, "vol": 0.2, "kind": "put"}:
// each column a number or a list.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "market/montecarlo/heston.h"
#include "market/options/american.h"
#include "market/options/binomial.h"
#include "market/options/black_scholes.h"
#include "market/request/dimension.h"
#include "market/request/request_context.h"

namespace sluice::market {

namespace {

constexpr std::array<std::string_view, 5> kModels{"black_scholes", "binomial", "american", "heston",
                                                  "implied"};
enum Model : std::size_t { black_scholes_model, tree_model, american_model, heston_model, implied };
constexpr std::array<std::string_view, 2> kExercises{"european", "american"};
constexpr std::array<std::string_view, 3> kAccuracies{"fast", "standard", "fine"};

struct OptionInput {
  double one = 0;
  std::vector<double> many;  // empty: `one` for all
  double at(std::size_t i) const { return many.empty() ? one : many[i]; }
  Column<double> column() const {
    return many.empty() ? Column<double>(one) : Column<double>(many);
  }
};

struct OptionRequest {
  std::size_t model = 0, count = 1;
  Dimension options{"options"};  // that lists are of
  OptionInput spot, strike, t, rate, div_yield, vol, price;
  std::vector<OptionKind> kinds;  // one for all, or one each
  BinomialOptions tree{};
  AmericanAccuracy accuracy{};
  Heston heston{};

  bool single() const { return !options.known(); }  // numbers only: the answer has numbers, too
  OptionColumns<double> columns() const {
    return {spot.column(), strike.column(),    t.column(),
            rate.column(), div_yield.column(), vol.column()};
  }
};

struct Result {
  std::vector<std::pair<std::string, std::vector<double>>> columns;
  std::vector<ImpliedReason> reasons;
  compute::Outcome outcome;
};

// `default_value` is null for a required column.
OptionInput read(RequestContext& context, OptionRequest& request, std::string_view name,
                 const double* default_value) {
  const Json* found = context.fields.find(name);
  if (found == nullptr) {
    require(default_value != nullptr,
            fmt::format("'{}' is missing: a number or a list of them", name));
    return {*default_value, {}};
  }
  if (found->is_number()) return {found->get<double>(), {}};
  if (!is_list(*found)) refuse_field(name, "a number or a list of numbers", *found);
  OptionInput given{0, numbers_of(*found, name)};
  require(!given.many.empty(), fmt::format("'{}' is empty", name));
  request.options.agree(name, given.many.size());
  request.count = given.many.size();
  return given;
}

// `number`: of its place in a list.
OptionKind kind_from(const Json& json, std::optional<std::size_t> number) {
  if (json == "call") return OptionKind::call;
  if (json == "put") return OptionKind::put;
  refuse_field(number ? fmt::format("kind[{}]", *number) : "kind", "call or put", json);
}

void read_kinds(RequestContext& context, OptionRequest& request) {
  const Json* found = context.fields.find("kind");
  if (found == nullptr || !found->is_array()) {
    request.kinds = {found == nullptr ? OptionKind::call : kind_from(*found, std::nullopt)};
    return;
  }
  require(!request.single(), "'kind' is a list; so must be 'spot', 'strike' or another column");
  request.options.agree("kind", found->size());
  for (std::size_t i = 0; i < found->size(); ++i)
    request.kinds.push_back(kind_from((*found)[i], i));
}

void read_model(RequestContext& context, OptionRequest& request) {
  Fields& f = context.fields;
  if (request.model == tree_model) {
    request.tree.exercise =
        f.one_of("exercise", kExercises, 1) == 0 ? Exercise::european : Exercise::american;
    request.tree.steps = static_cast<int>(f.integer("steps", 1024, 1, kMaxTreeSteps));
  }
  if (request.model == american_model)
    request.accuracy = static_cast<AmericanAccuracy>(f.one_of("accuracy", kAccuracies, 1));
  if (request.model == heston_model) {
    request.heston = {f.number("v0", 0.04), f.number("kappa", 1), f.number("theta", 0.04),
                      f.number("sigma", 0.5), f.number("rho", -0.7)};
  }
}

// Returns the work units of one option of the model.
double work_of_one(const OptionRequest& request) {
  constexpr double kAmerican[] = {2e3, 1.6e4, 1.3e5};  // by accuracy
  switch (request.model) {
    case tree_model: return 0.5 * request.tree.steps * request.tree.steps;
    case american_model: return kAmerican[static_cast<std::size_t>(request.accuracy)];
    case implied: return 1500;
    default: return 300;
  }
}

HestonOption heston_option(const OptionRequest& request, OptionKind kind, std::size_t i) {
  return {kind,
          request.spot.at(i),
          request.strike.at(i),
          request.t.at(i),
          request.rate.at(i),
          request.div_yield.at(i),
          request.heston};
}

// Options with extreme parameters are priced one by one, not in vectors.
bool slow_american(const OptionRequest& request, std::size_t i) {
  const double t = request.t.at(i), highest = std::max(request.rate.at(i), request.div_yield.at(i));
  return highest * t > 100 || request.vol.at(i) * std::sqrt(t) < 0.01;
}

double work_of_all(const OptionRequest& request) {
  constexpr double kPanel = 3500, kSlower = 25;
  double work = 0;
  if (request.model == heston_model)
    for (std::size_t i = 0; i < request.count; ++i) {
      throw_if_cancelled();
      work += kPanel * heston_panels(heston_option(request, OptionKind::call, i));
    }
  else if (request.model == american_model)
    for (std::size_t i = 0; i < request.count; ++i)
      work += work_of_one(request) * (slow_american(request, i) ? kSlower : 1);
  else
    work = static_cast<double>(request.count) * work_of_one(request);
  return work;
}

void check_cost(RequestContext& context, const OptionRequest& request) {
  const auto count = static_cast<double>(request.count),
             both = request.kinds.size() > 1 ? 2.0 : 1.0;
  const double columns = request.model == black_scholes_model ? double{kGreekCount} : 1;
  constexpr double kInput = 8 * 8;  // numbers of an option, as given and in columns
  context.charge(count * (kInput + columns * (8 * both + kNumberBytes)), "so many options");
  context.check_work(
      both * work_of_all(request) + count * columns * kNumberWork,
      request.model == tree_model ? "'steps' and the number of options" : "so many options");
}

OptionRequest read_request(RequestContext& context) {
  OptionRequest request;
  const double zero = 0;
  request.model = context.fields.one_of("model", kModels, 0);
  const bool has_vol = request.model != heston_model && request.model != implied;
  request.spot = read(context, request, "spot", nullptr);
  request.strike = read(context, request, "strike", nullptr);
  request.t = read(context, request, "t", nullptr);
  request.rate = read(context, request, "rate", &zero);
  request.div_yield = read(context, request, "div_yield", &zero);
  if (has_vol) request.vol = read(context, request, "vol", nullptr);
  if (request.model == implied) request.price = read(context, request, "price", nullptr);
  read_kinds(context, request);
  read_model(context, request);
  context.fields.finish();
  check_cost(context, request);
  return request;
}

Result with_greeks(RequestContext& context, const OptionRequest& request, OptionKind kind) {
  auto greeks = black_scholes_greeks<double>(context.compute, request.columns(), kind,
                                             request.count, context.device);
  Result result;
  result.outcome = greeks.outcome;
  for (std::size_t i = 0; i < kGreekCount; ++i)
    result.columns.emplace_back(name(static_cast<Greek>(i)), greeks.take(static_cast<Greek>(i)));
  return result;
}

Result by_heston(RequestContext& context, const OptionRequest& request, OptionKind kind) {
  std::vector<double> prices(request.count);
  const Instant begun = Steady::now();
  // Most take a millisecond, but a second where the integral hardly falls.
  const double max_s = std::max(1.0, context.limits.max_work / kWorkUnitsPerSecond);
  context.compute.workers().each(request.count, 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      require(seconds_between(begun, Steady::now()) <= max_s,
              "Heston's formula takes too long for these options; ask for fewer at once");
      prices[i] = heston_price(heston_option(request, kind, i));
    }
  });
  compute::Outcome outcome;
  outcome.items_on_cpu = request.count;
  outcome.seconds = seconds_between(begun, Steady::now());
  outcome.choice.reason = "Heston's formula is for the CPU alone";
  return {{{"price", std::move(prices)}}, {}, std::move(outcome)};
}

Result result_of(RequestContext& context, const OptionRequest& request, OptionKind kind) {
  if (request.model == black_scholes_model) return with_greeks(context, request, kind);
  if (request.model == heston_model) return by_heston(context, request, kind);
  Result result;
  std::vector<double> out(request.count);
  if (request.model == implied) {
    result.reasons.resize(request.count);
    result.outcome = implied_volatility(context.compute, request.price.column(), request.columns(),
                                        kind, out, result.reasons, context.device);
  } else if (request.model == american_model) {
    result.outcome =
        american(context.compute, request.columns(), kind, out, request.accuracy, context.device);
  } else {
    BinomialOptions tree = request.tree;
    tree.kind = kind;
    result.outcome = binomial(context.compute, request.columns(), tree, out, context.device);
  }
  result.columns.emplace_back(request.model == implied ? "vol" : "price", std::move(out));
  return result;
}

// With a kind for each option both kinds are calculated, and each option takes its own.
Result result_of(RequestContext& context, const OptionRequest& request) {
  Result result = result_of(context, request, request.kinds[0]);
  if (request.kinds.size() == 1) return result;
  const OptionKind other =
      request.kinds[0] == OptionKind::call ? OptionKind::put : OptionKind::call;
  const Result second = result_of(context, request, other);
  for (std::size_t i = 0; i < request.count; ++i) {
    if (request.kinds[i] != other) continue;
    for (std::size_t c = 0; c < result.columns.size(); ++c)
      result.columns[c].second[i] = second.columns[c].second[i];
    if (!result.reasons.empty()) result.reasons[i] = second.reasons[i];
  }
  return result;
}

// Returns the reason why option `i` has no price.
std::string_view why_none(const OptionRequest& request, std::size_t i) {
  const OptionInput* const columns[] = {&request.spot, &request.strike, &request.t,
                                        &request.vol,  &request.rate,   &request.div_yield};
  const auto at = [i](const OptionInput* given) { return given->at(i); };
  if (!std::ranges::all_of(
          columns, [](double v) { return std::isfinite(v); }, at))
    return "a number is missing or not finite";
  const std::span prices(columns, 4);
  if (std::ranges::any_of(
          prices, [](double v) { return v < 0; }, at))
    return "spot, strike, t and vol must not be negative";
  if (request.model == american_model) {
    const bool put = request.kinds[request.kinds.size() > 1 ? i : 0] == OptionKind::put;
    if (put && request.div_yield.at(i) < 0)
      return "this method does not price puts with a negative div_yield: take model binomial";
    if (!put && request.rate.at(i) < 0)
      return "this method does not price calls with a negative rate: take model binomial";
  }
  if (request.model != tree_model) return "the numbers are out of range";
  if (std::ranges::any_of(
          prices, [](double v) { return v == 0; }, at))
    return "a tree needs spot, strike, t and vol above zero";
  const double drift = std::abs(request.rate.at(i) - request.div_yield.at(i));
  if (drift * std::sqrt(request.t.at(i) / request.tree.steps) >= request.vol.at(i))
    return "so low a volatility needs more steps";
  return "the numbers are out of range";
}

constexpr double kReasonBytes = 250;  // a sentence, and its text in the answer

// An entry is null where there is a price; the list is null when all have one.
Json reasons_of(RequestContext& context, const OptionRequest& request,
                const std::vector<double>& prices) {
  const auto none = [](double price) { return std::isnan(price); };
  if (std::ranges::none_of(prices, none)) return nullptr;
  context.charge(kReasonBytes * static_cast<double>(prices.size()),
                 "so many options without a price");
  Json list = Json::array();
  for (std::size_t i = 0; i < prices.size(); ++i)
    list.push_back(none(prices[i]) ? Json(why_none(request, i)) : Json(nullptr));
  return list;
}

Json reasons_of(RequestContext& context, const std::vector<ImpliedReason>& reasons) {
  context.charge(kReasonBytes * static_cast<double>(reasons.size()), "so many options");
  Json list = Json::array();
  for (const ImpliedReason reason : reasons)
    list.push_back(reason == ImpliedReason::found ? Json(nullptr) : Json(explain(reason)));
  return list;
}

}  // namespace

Json answer_option(RequestContext& context) {
  const OptionRequest request = read_request(context);
  Result result = result_of(context, request);
  Json answer = {{"model", kModels[request.model]}, {"options", request.count}};
  if (request.kinds.size() == 1)
    answer["kind"] = kOptionKinds[static_cast<std::size_t>(request.kinds[0])];
  Json reasons = result.reasons.empty() ? reasons_of(context, request, result.columns[0].second)
                                        : reasons_of(context, result.reasons);
  for (auto& [name, values] : result.columns) {
    append_member(answer, name, request.single() ? number_or_null(values[0]) : list_of(values));
    values = {};  // it is part of the answer now
  }
  if (!reasons.is_null()) answer["reason"] = request.single() ? reasons[0] : std::move(reasons);
  context.report_run(answer, result.outcome);
  return answer;
}

}  // namespace sluice::market
