// Requests as HTTP, Python and the command line make them: what is refused by name, and what
// is answered with a reason instead of silence.
#include "market/request/request.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sanitized_for_tests.h"

namespace sluice::market {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kServerWork = 1e10;  // work units that a server allows

class Requests : public testing::Test {
 protected:
  Json ask(std::string_view what, const Json& request) {
    return answer(compute, what, request, {.max_work = kServerWork});
  }
  Json ask(std::string_view what, const char* request) { return ask(what, Json::parse(request)); }
  std::string refused_text(std::string_view what, std::string_view body) {
    try {
      return "answered: " + answer_text(compute, what, body, {.max_work = kServerWork});
    } catch (const Error& e) {
      return std::string(e.reason());
    }
  }
  std::string refused(std::string_view what, const Json& request) {
    try {
      return "answered: " + answer(compute, what, request, {.max_work = kServerWork}).dump();
    } catch (const Error& e) {
      return std::string(e.reason());
    }
  }
  std::string refused(std::string_view what, const char* request) {
    return refused(what, Json::parse(request));
  }

  compute::Compute compute{{.threads = 2}};
};

// Everything that must be of one size, off by one and off by far.
TEST_F(Requests, MismatchedSizesAreRefusedNamingBoth) {
  struct Case {
    const char *what, *request, *field, *sizes;
  };
  constexpr Case kCases[] = {
      {"portfolio", R"({"goal": "min_cvar", "returns": [[0.01, -0.02, 0.03, 0.01],
          [0.02, 0.01, -0.01, 0.02]], "mean": [1, 2, 3, 4, 5, 6, 7, 8]})",
       "'mean' has 8 assets", "'returns' has 2"},
      {"portfolio", R"({"goal": "min_cvar", "returns": [[0.01, -0.02, 0.03, 0.01],
          [0.02, 0.01, -0.01, 0.02]], "mean": [1]})",
       "'mean' has 1 assets", "'returns' has 2"},
      {"portfolio", R"({"goal": "min_cvar", "prices": {"A": [1, 2, 1], "B": [2, 1, 3]},
          "mean": []})",
       "'mean' has 0 assets", "'prices' has 2"},
      {"portfolio", R"({"mean": [0.1], "covariance": [[0.04, 0.01], [0.01, 0.09]]})",
       "'mean' has 1 assets", "'covariance' has 2"},
      {"portfolio", R"({"mean": [0.1, 0.1], "covariance": [[0.04, 0.01]]})",
       "'covariance[0]' has 2 assets", "'covariance' has 1"},
      {"portfolio", R"({"covariance": [[0.04, 0.01], [0.01, 0.09]], "names": ["A", "B", "C"]})",
       "'names' has 3 assets", "'covariance' has 2"},
      {"portfolio", R"({"returns": [[0.1, 0.2], [0.1, 0.3]], "lower": [0, 0, 0]})",
       "'lower' has 3 assets", "'returns' has 2"},
      {"portfolio", R"({"returns": [[0.1, 0.2], [0.1, 0.3]], "upper": [1, 1, 1]})",
       "'upper' has 3 assets", "'returns' has 2"},
      {"portfolio", R"({"returns": [[0.1, 0.2], [0.1, 0.3]], "held": [1], "turnover": 1})",
       "'held' has 1 assets", "'returns' has 2"},
      {"portfolio", R"({"returns": [[0.1, 0.2], [0.1, 0.3]], "goal": "risk_parity",
          "shares": [1, 2, 3]})",
       "'shares' has 3 assets", "'returns' has 2"},
      {"portfolio", R"({"returns": [[0.1, 0.2], [0.1]]})", "'returns[1]' has 1", "has 2"},
      {"risk", R"({"prices": [1, 2, 3], "benchmark": [1, 2]})", "'benchmark' has 2",
       "'prices' has 3"},
      {"risk", R"({"returns": [[0.1, 0.2, 0.3]], "benchmark": [1, 2, 3, 4]})", "'benchmark' has 4",
       "'returns' has 3"},
      {"option", R"({"spot": [1, 2], "strike": [1, 2, 3], "t": 1, "vol": 1})",
       "'strike' has 3 options", "'spot' has 2"},
      {"option", R"({"spot": 1, "strike": [1, 2, 3], "t": 1, "vol": 1, "kind": ["put"]})",
       "'kind' has 1 options", "'strike' has 3"},
      {"option", R"({"spot": 1, "strike": 1, "t": 1, "vol": 1, "kind": ["put"]})", "'kind'",
       "list"},
      {"montecarlo", R"({"payoff": "basket", "assets": [{}, {}], "correlation": [[1, 0, 0],
          [0, 1, 0], [0, 0, 1]]})",
       "'correlation' has 3 assets", "'assets' has 2"},
      {"montecarlo", R"({"payoff": "basket", "assets": [{}, {}], "correlation": [[1], [1]]})",
       "'correlation[0]' has 1 assets", "'assets' has 2"},
      {"montecarlo", R"({"payoff": "basket", "weights": [1, 2]})", "'weights' has 2 assets",
       "'assets' has 1"},
      {"backtest", R"({"close": [1, 2, 3], "open": [1, 2]})", "'open' has 2", "'close' has 3"},
      {"backtest", R"({"close": [1, 2, 3], "dates": ["2020-01-01"]})", "'dates' has 1",
       "'close' has 3"},
      {"backtest", R"({"prices": {"A": {"close": [1, 2], "low": [1]}}})", "'prices.A.low' has 1",
       "'prices.A.close' has 2"},
      {"atr", R"({"high": [1, 2], "low": [1], "close": [1, 2]})", "'low' has 1", "'high' has 2"},
      {"atr", R"({"high": [[1], [2]], "low": [[1]], "close": [[1]]})", "'low' has 1 series",
       "'high' has 2"},
  };
  for (const Case& one : kCases) {
    EXPECT_THAT(refused(one.what, one.request), AllOf(HasSubstr(one.field), HasSubstr(one.sizes)))
        << one.request;
    EXPECT_THAT(refused_text(one.what, one.request),
                AllOf(HasSubstr(one.field), HasSubstr(one.sizes)));
  }
}

TEST_F(Requests, TextAndJsonRequestsGetTheSameAnswer) {
  for (const auto& [what, request] : std::initializer_list<std::pair<const char*, const char*>>{
           {"sma", R"({"close": [1, 2, 4, null, 8], "timeperiod": 2})"},
           {"mom", R"({"series": {"A": [1, 2], "B": [5, 9, 10]}, "timeperiod": 1})"},
           {"atr", R"({"high": [[2, 3]], "low": [[1, 2]], "close": [[1, 3]], "timeperiod": 1})"},
           {"option", R"({"spot": [60, null], "strike": 65, "t": 0.25, "vol": 0.3})"},
           {"option", R"({"spot": 60, "strike": 65, "t": 0.25, "vol": 0.3, "kind": "put"})"},
           {"risk",
            R"({"prices": {"A": [1, 2, 1, 3], "B": [3, 2, 3, 4]}, "covariance": "sample"})"},
           {"portfolio", R"({"prices": {"A": [1, 2, 1, 3], "B": [3, 2, 3, 4]}, "lower": [0.1, 0],
                "sectors": [{"assets": [0, 1], "max": 1}], "goal": "min_volatility"})"},
           {"backtest", R"({"close": [10, 11, 12, 11, 10, 9, 10, 12],
                "parameters": {"fast": [1], "slow": [3]}})"}})
    EXPECT_EQ(answer_text(compute, what, request), ask(what, request).dump()) << what;
}

TEST_F(Requests, AnswersOfManySeriesTakeLinearTime) {
  Json many = Json::object();  // once: each name was looked for among all before it
  for (int i = 0; i < 100'000; ++i)
    many.get_ref<Json::object_t&>().emplace_back(std::to_string(i), Json{1.0, 2.0});
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(ask("mom", {{"series", many}, {"timeperiod", 1}})["series"].size(), 100'000u);
  EXPECT_EQ(ask("risk", {{"prices", many}})["series"].size(), 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience * std::chrono::seconds(20));
}

TEST_F(Requests, AMissingPriceHasAReason) {
  const Json american = ask("option", R"({"model": "american", "spot": 100, "strike": [90, 100],
      "t": 1, "rate": -0.05, "vol": [0.2, null]})");
  EXPECT_THAT(american["reason"][0].get<std::string>(), HasSubstr("take model binomial"));
  EXPECT_THAT(american["reason"][1].get<std::string>(), HasSubstr("missing"));
  const Json both = ask("option", R"({"model": "american", "spot": [100, 100, 1e301], "strike": 90,
      "t": 1, "rate": [-0.05, 0.05, 0.05], "div_yield": [0, -0.05, 0], "vol": 0.2,
      "kind": ["call", "put", "put"]})");
  EXPECT_THAT(both["reason"][0].get<std::string>(), HasSubstr("calls with a negative rate"));
  EXPECT_THAT(both["reason"][1].get<std::string>(), HasSubstr("puts with a negative div_yield"));
  EXPECT_THAT(both["reason"][2].get<std::string>(), HasSubstr("out of range"));
  const auto tree = [&](const char* request) { return ask("option", request)["reason"].dump(); };
  EXPECT_THAT(tree(R"({"model": "binomial", "spot": 100, "strike": 90, "t": 0, "vol": 0.2})"),
              HasSubstr("above zero"));
  EXPECT_THAT(tree(R"({"model": "binomial", "spot": 100, "strike": 90, "t": 1, "vol": 0.001,
      "rate": 0.5, "steps": 3})"),
              HasSubstr("more steps"));
  EXPECT_THAT(tree(R"({"model": "binomial", "spot": 1e301, "strike": 90, "t": 1, "vol": 0.2})"),
              HasSubstr("out of range"));
  EXPECT_THAT(tree(R"({"spot": 100, "strike": 90, "t": 1, "vol": -1})"), HasSubstr("negative"));
  EXPECT_FALSE(ask("option", R"({"spot": 1, "strike": 1, "t": 1, "vol": 1})").contains("reason"));
}

TEST_F(Requests, FieldsThatAPayoffDoesNotUseAreRefused) {
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

TEST_F(Requests, FieldsThatAGoalDoesNotUseAreRefused) {
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
  EXPECT_THAT(with("max_sharpe", "held", {0.5, 0.5}), HasSubstr("'held'"));
  request = {{"returns", {{0.1, -0.1, 0.2}, {0.0, 0.1, -0.1}}}};
  EXPECT_THAT(with("max_sharpe", "span", 60), HasSubstr("'span'"));
  for (const char* field : {"l2", "risk_free", "covariance", "span"})
    EXPECT_THAT(with("min_cvar", field, 1), HasSubstr(field));
  EXPECT_THAT(refused("risk", {{"returns", {0.1, -0.1, 0.2}}, {"span", 60}}), HasSubstr("'span'"));
}

TEST_F(Requests, ASectorWithMoreEntriesThanAssetsIsRefusedBeforeTheyAreRead) {
  const Json request = {{"covariance", {{0.04, 0.0}, {0.0, 0.09}}}, {"goal", "min_volatility"}};
  for (const Json& assets : {Json{0, 1, 0}, Json{"x", 1, 0}}) {
    Json wrong = request;
    wrong["sectors"] = {{{"assets", assets}, {"max", 1}}};
    for (const auto& message :
         {refused("portfolio", wrong), refused_text("portfolio", wrong.dump())})
      EXPECT_THAT(message, HasSubstr("'sectors[0].assets' has 3 assets; there are 2"));
  }
}

TEST_F(Requests, PricesOfZeroOrBelowAreRefused) {
  for (const double price : {0.0, -2.0}) {
    EXPECT_THAT(refused("risk", {{"prices", {1, 2, price, 5}}}),
                AllOf(HasSubstr("'prices': bar 2"), HasSubstr("above zero")));
    EXPECT_THAT(refused("portfolio", {{"prices", {{"A", {1, 2, 3}}, {"B", {price, 2, 3}}}}}),
                HasSubstr("'prices.B': bar 0"));
    EXPECT_THAT(refused("risk", {{"prices", {1, 2, 3}}, {"benchmark", {1, price, 3}}}),
                HasSubstr("'benchmark': bar 1"));
  }
  EXPECT_THAT(refused("risk", {{"prices", {1, nullptr, 2}}}), HasSubstr("answered"));
}

TEST_F(Requests, OneStepEndsAtTheEndAndHestonStepsAreShort) {
  const auto simulated = [&](Json request) {
    request["paths"] = 64;
    return refused("montecarlo", request);
  };
  EXPECT_THAT(simulated({{"first", 0.25}, {"t", 1}}), HasSubstr("one step must end at t"));
  EXPECT_THAT(simulated({{"first", 1}, {"t", 1}}), HasSubstr("answered"));
  EXPECT_THAT(simulated({{"payoff", "asian"}, {"first", 0.25}, {"t", 1}}), HasSubstr("answered"));
  const Json heston = {{"kappa", 1000}};
  EXPECT_THAT(simulated({{"heston", heston}, {"steps", 100}}), HasSubstr("take 1000 steps"));
  EXPECT_THAT(simulated({{"heston", heston}, {"steps", 1000}}), HasSubstr("answered"));
}

TEST_F(Requests, PricesTooFarApartForAnAccountAreRefused) {
  Json close = Json::array();
  for (int i = 0; i < 50; ++i) {
    close.push_back(1e-300);
    close.push_back(1e300);
  }
  EXPECT_THAT(refused("backtest", {{"close", close}, {"parameters", {{"fast", 1}, {"slow", 2}}}}),
              HasSubstr("range of numbers"));
}

TEST_F(Requests, TheReturnWithoutMeansIsNull) {
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

TEST_F(Requests, TooManyWindowsAreRefusedBeforeTrading) {
  for (const bool anchored : {false, true}) {
    const Json request = {
        {"close", wavy_prices(20000)},
        {"walk_forward", {{"in_sample", 2}, {"out_of_sample", 1}, {"anchored", anchored}}}};
    EXPECT_THAT(refused("backtest", request), HasSubstr("work units"));
  }
  const Json usual = {{"close", wavy_prices(1500)}, {"walk_forward", true}};
  EXPECT_THAT(refused("backtest", usual), HasSubstr("answered"));
}

TEST_F(Requests, ExpensiveOptionsAreEstimatedAsExpensive) {
  Json request = Json::parse(R"({"model": "heston", "spot": 100, "strike": 100, "t": 1})");
  request["spot"] = std::vector<double>(2000, 100.0);
  if (!kSanitized) {  // an instrumented formula takes too long for it
    EXPECT_THAT(refused("option", request), HasSubstr("answered"));
  }
  request["t"] = 1e-6;
  EXPECT_THAT(refused("option", request), HasSubstr("work units"));
}

TEST_F(Requests, LongNamesAreCutInMessages) {
  const std::string name(5'000'000, 'A');
  const Json wrong[] = {{{"returns", {{name, {1, 2}}, {name + "b", {1}}}}},
                        {{"series", {{name, {{1}}}}}},
                        {{"prices", {{name, {1, -2}}}}},
                        {{"prices", {{name, {1, "x"}}}}}};
  const char* const kinds[] = {"risk", "rsi", "backtest", "backtest"};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string message = refused(kinds[i], wrong[i]);
    EXPECT_THAT(message, HasSubstr("AAA"));
    EXPECT_LT(message.size(), 500u) << kinds[i];
  }
}

TEST_F(Requests, AnswersOverTheMemoryLimitAreRefused) {
  EXPECT_THAT(refused("backtest", {{"close", wavy_prices(50)},
                                   {"parameters", {{"fast", "1:600"}, {"slow", "2:600"}}}}),
              HasSubstr("work units"));
  EXPECT_THAT(
      refused("risk", {{"returns", wavy_prices(9)}, {"simulate", true}, {"paths", 1 << 30}}),
      HasSubstr("'paths'"));
  Json many = Json::array();
  for (int i = 0; i < 2001; ++i) many.push_back({0.1, 0.2});
  EXPECT_THAT(refused("risk", {{"returns", many}, {"covariance", "sample"}}), HasSubstr("2000"));
}

TEST_F(Requests, IntradayBarsHaveTimes) {
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

TEST_F(Requests, WindowParametersAreNamed) {
  const Json request = {{"close", wavy_prices(300)},
                        {"walk_forward", {{"in_sample", 100}, {"out_of_sample", 100}}}};
  const Json found = answer(compute, "backtest", request);
  EXPECT_EQ(found["walk_forward"]["windows"][0]["parameters"], Json({{"fast", 20}, {"slow", 50}}));
}

// A frontier had each name with each of its points: a name of 400 KB became 800 MB.
TEST_F(Requests, LongNamesAreRefusedWhereverTheyAre) {
  const std::string name(257, 'n'), longest(256, 'n');
  const Json covariance = {{1, 0}, {0, 1}};
  const auto portfolio = [&](const Json& names, const std::string& sector) {
    return Json{{"goal", "min_volatility"},
                {"covariance", covariance},
                {"names", names},
                {"sectors", {{{"name", sector}, {"assets", {0}}, {"max", 1}}}}};
  };
  const Json prices = {1.0, 2.0, 3.0, 2.0};
  struct Case {
    const char *what, *field;
    Json request;
  };
  const Case kCases[] = {
      {"portfolio", "'names'", portfolio({name, "B"}, "s")},
      {"portfolio", "'sectors'", portfolio({"A", "B"}, name)},
      {"portfolio", "'returns'", {{"returns", {{name, {0.1, 0.2}}}}}},
      {"risk", "'prices'", {{"prices", {{name, prices}}}}},
      {"rsi", "'series'", {{"series", {{name, prices}}}}},
      {"backtest", "'prices'", {{"prices", {{name, prices}}}, {"html", true}}},
      {"backtest", "'ticker'", {{"close", prices}, {"ticker", name}}},
      {"backtest", "'strategy'", {{"close", prices}, {"strategy", name}}},
      {"option", "'kind'", {{"spot", {1, 2}}, {"kind", {name, "put"}}}},
      {"sma", "'the request'", {{"close", prices}, {name, 1}}},
  };
  for (const Case& one : kCases)
    EXPECT_THAT(refused(one.what, one.request),
                AllOf(HasSubstr(one.field), HasSubstr("257 bytes"), HasSubstr("at most 256")));
  EXPECT_THAT(refused("portfolio", portfolio({longest, "B"}, longest)), HasSubstr("answered"));
  EXPECT_THAT(refused("backtest", {{"close", prices}, {"parameters", {{"fast", longest + name}}}}),
              HasSubstr("is no number"));
}

TEST_F(Requests, MessagesAreShortWhateverWasSent) {
  const std::string text(1 << 20, 'x'), numbers = [] {
    std::string all = "1";
    for (int i = 1; i < 1'000'001; ++i) all += ",1";
    return all;
  }();
  std::string colons = numbers;
  std::ranges::replace(colons, ',', ':');
  const auto begun = std::chrono::steady_clock::now();
  for (const auto& [value, words] : {std::pair{text, "is no number"},
                                     {text + ",1", "is no number"},
                                     {"1:2:" + text, "no number"},
                                     {"3:2:" + std::string(1 << 20, '0') + "1", "is no range"},
                                     {numbers, "more than a million"},
                                     {colons, "more than a million"}}) {
    const auto message =
        refused("backtest", {{"close", {1.0, 2.0, 3.0}}, {"parameters", {{"fast", value}}}});
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_LT(message.size(), 200u);
  }
  EXPECT_LT(refused(text, Json::object()).size(), 2000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

}  // namespace
}  // namespace sluice::market
