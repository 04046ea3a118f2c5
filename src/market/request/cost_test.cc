// What requests may cost: estimates before anything is calculated, of time and of memory.
#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/memory_budget.h"
#include "base/sanitized_for_tests.h"
#include "market/request/request.h"

namespace sluice::market::costs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kMaxWork = 1e10;

struct Costly {
  const char *what, *names;
  Json request;
};

Json rows(std::size_t n, std::size_t bars) {
  return Json(std::vector<Json>(n, Json(std::vector<double>(bars, 0.01))));
}

Json named_rows(std::size_t n, std::size_t bars, std::size_t length) {
  Json all = Json::object();
  for (std::size_t i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    all[std::string(length - number.size(), 'n') + number] = std::vector<double>(bars, 0.01);
  }
  return all;
}

Json series(std::size_t bars) { return Json(std::vector<double>(bars, 100.0)); }

// Each would take minutes, hours or years.
std::vector<Costly> too_long() {
  return {
      {"portfolio", "assets", {{"goal", "min_cvar"}, {"returns", rows(60, 5000)}}},
      {"portfolio",
       "assets",
       {{"goal", "cvar_target_return"}, {"value", 0}, {"returns", rows(200, 2000)}}},
      {"portfolio", "assets", {{"goal", "frontier"}, {"points", 1000}, {"returns", rows(300, 3)}}},
      {"portfolio", "assets", {{"goal", "target_risk"}, {"value", 1}, {"returns", rows(600, 3)}}},
      {"portfolio",
       "assets",
       {{"goal", "min_volatility"}, {"turnover", 1}, {"leverage", 1}, {"returns", rows(400, 3)}}},
      {"portfolio",
       "assets",
       {{"goal", "frontier"},
        {"points", 100},
        {"lower", 1.0 / 150},
        {"upper", 1.0 / 150},
        {"returns", rows(150, 3)}}},
      {"montecarlo", "'paths'", {{"paths", 1e12}, {"steps", 100000}}},
      {"montecarlo", "'paths'", {{"payoff", "asian"}, {"paths", 1e12}}},
      {"montecarlo", "'paths'", {{"sobol", true}, {"paths", 1e12}}},
      {"montecarlo", "'paths'", {{"payoff", "best_of"}, {"sobol", true}, {"paths", 1e8}}},
      {"cci",
       "'timeperiod'",
       {{"high", series(200'000)},
        {"low", series(200'000)},
        {"close", series(200'000)},
        {"timeperiod", 90'000}}},
      {"cci",
       "'timeperiod'",
       {{"high", series(100'000)},
        {"low", series(100'000)},
        {"close", series(100'000)},
        {"timeperiod", 40'000}}},
      {"option",
       "options",
       {{"model", "heston"},
        {"spot", series(20)},
        {"strike", 100},
        {"t", 1e-5},
        {"v0", 1e-9},
        {"theta", 1e-9}}},
      {"option",
       "options",
       {{"model", "american"},
        {"accuracy", "fine"},
        {"spot", series(10'000)},
        {"strike", 100},
        {"t", 1000},
        {"rate", 9.9},
        {"vol", 1e-3}}},
      {"option",
       "'steps'",
       {{"model", "binomial"},
        {"steps", 16384},
        {"spot", series(1000)},
        {"strike", 1},
        {"t", 1},
        {"vol", 1}}},
      {"option",
       "options",
       {{"model", "american"},
        {"accuracy", "fine"},
        {"spot", series(500'000)},
        {"strike", 1},
        {"t", 1},
        {"vol", 1}}},
      {"option",
       "options",
       {{"model", "heston"}, {"spot", series(100'000)}, {"strike", 1}, {"t", 1}}},
      {"risk", "'paths'", {{"returns", rows(100, 3)}, {"simulate", true}, {"paths", 1 << 25}}},
      {"risk", "series", {{"returns", rows(2000, 3000)}, {"covariance", "sample"}}},
      {"backtest",
       "'parameters'",
       {{"close", series(100'000)}, {"parameters", {{"fast", "1:500"}, {"slow", "501:1000"}}}}},
      {"backtest",
       "bars",
       {{"close", series(20'000)}, {"walk_forward", {{"in_sample", 2}, {"out_of_sample", 1}}}}},
  };
}

TEST(Costs, RequestsOverTheTimeLimitAreRefusedBeforeTheyBegin) {
  compute::Compute compute({.threads = 2});
  for (const Costly& one : too_long()) {
    const auto begun = std::chrono::steady_clock::now();
    try {
      answer(compute, one.what, one.request, {.max_work = kMaxWork});
      ADD_FAILURE() << "answered: " << one.what << " " << one.request.dump().substr(0, 80);
    } catch (const TooMuchWork& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr(one.names), HasSubstr("work units"), HasSubstr("1e+10"),
                                  HasSubstr("ask for less")));
      EXPECT_GT(e.work(), kMaxWork);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5 * kPatience))
        << one.what;
  }
}

// Paths come in whole blocks, however few are asked for.
TEST(Costs, FewPathsAreEstimatedAsAFullBlock) {
  compute::Compute compute({.threads = 2});
  for (const Json& request :
       {Json{{"payoff", "asian_price"}, {"steps", 100000}, {"paths", 1}},
        Json{{"payoff", "asian_price"}, {"steps", 256}, {"sobol", true}, {"paths", 1}},
        Json{{"payoff", "asian"}, {"steps", 100000}, {"paths", 1}}})
    EXPECT_THROW(answer(compute, "montecarlo", request, {.max_work = 2.5e8}), TooMuchWork);
}

std::string refusal(MemoryBudget& memory, std::string_view what, const Json& request, Code& code) {
  compute::Compute compute({.threads = 2});
  MemoryBudget::Charge charge(memory);
  try {
    return "answered: " + answer_text(compute, what, request.dump(), {.memory = &charge});
  } catch (const Error& e) {
    code = e.code();
    return std::string(e.reason());
  }
}

// Small bodies that once took any amount of memory.
TEST(Costs, RequestsOverTheMemoryLimitAreRefusedByTheirEstimate) {
  Json tickers = Json::object();
  for (int i = 0; i < 1000; ++i) tickers[std::to_string(i)] = Json{1.0, 2.0};
  tickers["long"] = series(100'000);  // each ticker has space for as many bars
  const Costly kCases[] = {
      {"backtest", "bars", {{"prices", tickers}}},
      {"backtest", "bars", {{"close", series(100'000)}, {"parameters", {{"fast", "1:300"}}}}},
      {"option", "options", {{"spot", series(500'000)}, {"strike", 1}, {"t", 1}, {"vol", 1}}},
      {"risk", "'paths'", {{"returns", rows(1, 3)}, {"simulate", true}, {"paths", 1 << 25}}},
      {"risk", "series", {{"returns", rows(1900, 2)}, {"covariance", "sample"}}},
      {"macd", "bars", {{"close", series(1'500'000)}}},
      {"portfolio",
       "values",
       {{"covariance", {{1, 0}, {0, 1}}}, {"names", std::vector<std::string>(1'200'000)}}},
      {"portfolio",
       "assets",
       {{"goal", "frontier"}, {"points", 1000}, {"returns", named_rows(150, 2, 256)}}},
  };
  for (const Costly& one : kCases) {
    Code code{};
    MemoryBudget small(100 << 20);
    EXPECT_THAT(refusal(small, one.what, one.request, code),
                AllOf(HasSubstr(one.names), HasSubstr("iB of memory"), HasSubstr("ask for less")));
    EXPECT_EQ(code, Code::invalid_argument);
    EXPECT_EQ(small.used(), 0u);
  }
}

TEST(Costs, ARequestIsRefusedWhileOthersHoldTheMemory) {
  MemoryBudget memory(100 << 20);
  const Json request = {{"spot", series(50'000)}, {"strike", 1}, {"t", 1}, {"vol", 1}};
  Code code{};
  {
    const auto others = memory.charge(90 << 20);
    EXPECT_THAT(refusal(memory, "option", request, code), HasSubstr("all requests share"));
    EXPECT_EQ(code, Code::exhausted);
  }
  EXPECT_THAT(refusal(memory, "option", request, code), HasSubstr("answered"));
  EXPECT_EQ(memory.used(), 0u);
}

}  // namespace
}  // namespace sluice::market::costs
