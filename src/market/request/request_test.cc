// Requests as HTTP, Python and the command line make them: what is refused by name, and what
// is answered with a reason instead of silence.
#include "market/request/request.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::market {
namespace {

using testing::HasSubstr;

constexpr double kServerWork = 1e10;  // steps that a server allows

class Requests : public testing::Test {
 protected:
  Json ask(std::string_view what, const char* request) {
    return answer(compute, what, Json::parse(request), {.most_work = kServerWork});
  }
  std::string refused(std::string_view what, const Json& request) {
    try {
      return "answered: " + answer(compute, what, request, {.most_work = kServerWork}).dump();
    } catch (const Error& e) {
      return std::string(e.reason());
    }
  }
  std::string refused(std::string_view what, const char* request) {
    return refused(what, Json::parse(request));
  }

  compute::Compute compute{{.threads = 2}};
};

TEST_F(Requests, APriceThatThereIsNotHasAReason) {
  const Json american = ask("option", R"({"model": "american", "spot": 100, "strike": [90, 100],
      "t": 1, "rate": -0.05, "vol": [0.2, null]})");
  EXPECT_THAT(american["reason"][0].get<std::string>(), HasSubstr("take binomial"));
  EXPECT_THAT(american["reason"][1].get<std::string>(), HasSubstr("missing"));
  const auto tree = [&](const char* request) { return ask("option", request)["reason"].dump(); };
  EXPECT_THAT(tree(R"({"model": "binomial", "spot": 100, "strike": 90, "t": 0, "vol": 0.2})"),
              HasSubstr("above zero"));
  EXPECT_THAT(tree(R"({"model": "binomial", "spot": 100, "strike": 90, "t": 1, "vol": 0.001,
      "rate": 0.5, "steps": 3})"),
              HasSubstr("more steps"));
  EXPECT_THAT(tree(R"({"spot": 100, "strike": 90, "t": 1, "vol": -1})"), HasSubstr("negative"));
  EXPECT_FALSE(ask("option", R"({"spot": 1, "strike": 1, "t": 1, "vol": 1})").contains("reason"));
}

TEST_F(Requests, FieldsThatAPayoffHasNoUseForAreRefused) {
  for (const char* field : {"level", "rebate", "extreme", "weights", "continuous", "barrier"}) {
    const Json request = {{"payoff", "european"}, {field, 1}};
    EXPECT_THAT(refused("montecarlo", request), HasSubstr(field));
  }
  EXPECT_THAT(refused("montecarlo", R"({"payoff": "barrier"})"), HasSubstr("'level' is missing"));
  EXPECT_THAT(refused("montecarlo", R"({"payoff": "asian", "sobol": true, "steps": 4})"),
              HasSubstr("asian_price"));
  EXPECT_THAT(refused("montecarlo", R"({"assets": [{}, {}], "paths": 4096})"),
              HasSubstr("one asset"));
  EXPECT_THAT(refused("montecarlo", R"({"payoff": "basket", "assets": [{}, {}],
      "weights": [null, 1]})"),
              HasSubstr("weights[0]"));
  EXPECT_THAT(refused("montecarlo", R"({"payoff": "basket", "assets": [{}, {}],
      "correlation": [[1, 0.5], [0.4, 1]]})"),
              HasSubstr("symmetric"));
}

TEST_F(Requests, FieldsThatAGoalHasNoUseForAreRefused) {
  Json request = {{"mean", {0.1, 0.2}}, {"covariance", {{0.04, 0.0}, {0.0, 0.09}}}};
  const auto with = [&](std::string_view goal, std::string_view field, const Json& value) {
    Json changed = request;
    changed["goal"] = goal;
    if (!field.empty()) changed[std::string(field)] = value;
    return refused("portfolio", changed);
  };
  EXPECT_THAT(with("max_sharpe", "value", 0.1), HasSubstr("'value'"));
  EXPECT_THAT(with("min_volatility", "points", 5), HasSubstr("'points'"));
  EXPECT_THAT(with("frontier", "shares", {1, 2}), HasSubstr("'shares'"));
  EXPECT_THAT(with("risk_parity", "upper", 0.4), HasSubstr("no limits"));
  for (const char* goal : {"target_return", "target_risk", "max_quadratic_utility"})
    EXPECT_THAT(with(goal, "", {}), HasSubstr("'value' is missing"));
  EXPECT_THAT(with("max_sharpe", "names", {"A", "A"}), HasSubstr("twice"));
}

TEST_F(Requests, WithoutMeansThereIsNoReturnRatherThanZero) {
  const Json found = ask("portfolio", R"({"covariance": [[0.04, 0], [0, 0.09]],
      "goal": "min_volatility", "explain": true})");
  EXPECT_TRUE(found["expected_return"].is_null() && found["sharpe"].is_null());
  EXPECT_EQ(found["ran"]["on"], "cpu");
  EXPECT_TRUE(ask("portfolio", R"({"mean": [0.1, 0.2], "covariance": [[0.04, 0], [0, 0.09]],
      "goal": "frontier", "points": 3, "explain": true})")
                  .contains("ran"));
}

Json wavy_prices(std::size_t bars) {
  Json list = Json::array();
  for (std::size_t i = 0; i < bars; ++i) list.push_back(100 + static_cast<double>(i * 7 % 13));
  return list;
}

TEST_F(Requests, WindowsThatAreTooManyAreRefusedBeforeTheyAreTraded) {
  for (const bool anchored : {false, true}) {
    const Json request = {
        {"close", wavy_prices(20000)},
        {"walk_forward", {{"in_sample", 2}, {"out_of_sample", 1}, {"anchored", anchored}}}};
    EXPECT_THAT(refused("backtest", request), HasSubstr("steps"));
  }
  const Json usual = {{"close", wavy_prices(1500)}, {"walk_forward", true}};
  EXPECT_THAT(refused("backtest", usual), HasSubstr("answered"));
}

TEST_F(Requests, OptionsWhoseFormulaTakesTooLongAreGivenUp) {
  Json request = Json::parse(R"({"model": "heston", "spot": 100, "strike": 100, "t": 1e-6})");
  request["spot"] = std::vector<double>(64, 100.0);
  try {
    answer(compute, "option", request, {.most_work = 1e6});  // a millisecond
    FAIL() << "it was worked to the end";
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.reason()), HasSubstr("too long"));
  }
}

TEST_F(Requests, AnswersThatWouldFillTheMemoryAreRefused) {
  EXPECT_THAT(refused("backtest", {{"close", wavy_prices(50)},
                                   {"parameters", {{"fast", "1:600"}, {"slow", "2:600"}}}}),
              HasSubstr("steps"));
  EXPECT_THAT(
      refused("risk", {{"returns", wavy_prices(9)}, {"simulate", true}, {"paths", 1 << 30}}),
      HasSubstr("'paths'"));
  Json many = Json::array();
  for (int i = 0; i < 2001; ++i) many.push_back({0.1, 0.2});
  EXPECT_THAT(refused("risk", {{"returns", many}, {"covariance", "sample"}}), HasSubstr("2000"));
}

TEST_F(Requests, BarsOfOneDayHaveTimes) {
  const char* wrong =
      R"({"close": [1, 2, 3], "dates": ["2020-01-02", "2020-01-02", "2020-01-03"]})";
  EXPECT_THAT(refused("backtest", wrong), HasSubstr("not after"));
  EXPECT_THAT(refused("backtest", R"({"close": [1, 2], "dates": ["2020-01-02T10:00",
      "2020-01-02T09:00"]})"),
              HasSubstr("not after"));
  const Json found = ask("backtest", R"({"close": [1, 2, 3], "dates": ["2020-01-02T09:30",
      "2020-01-02T10:30", "2020-01-03T09:30"]})");
  EXPECT_EQ(found["backtest"]["dates"], Json({"2020-01-02", "2020-01-02", "2020-01-03"}));
}

TEST_F(Requests, ParametersOfWindowsHaveTheirNames) {
  const Json request = {{"close", wavy_prices(300)},
                        {"walk_forward", {{"in_sample", 100}, {"out_of_sample", 100}}}};
  const Json found = answer(compute, "backtest", request);
  EXPECT_EQ(found["walk_forward"]["windows"][0]["parameters"], Json({{"fast", 20}, {"slow", 50}}));
}

}  // namespace
}  // namespace sluice::market
