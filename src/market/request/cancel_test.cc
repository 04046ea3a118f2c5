// Long calculations of every kind end soon after nobody waits for them any more.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/cancellation.h"
#include "market/backtest/engine/strategy.h"
#include "market/request/request.h"

namespace sluice::market::cancelling {
namespace {

using Clock = std::chrono::steady_clock;

// Soon, for a loaded machine and under the sanitizers: not cancelled, they take minutes.
constexpr auto kSoon = std::chrono::seconds(2);
constexpr auto kLater = std::chrono::milliseconds(200);

struct Long {
  const char* name;
  const char* what;
  Json request;
};

Json random_rows(std::size_t rows, std::size_t columns) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.0005, 0.01);
  Json all = Json::array();
  for (std::size_t i = 0; i < rows; ++i) {
    Json row = Json::array();
    for (std::size_t k = 0; k < columns; ++k) row.push_back(normal(random));
    all.push_back(std::move(row));
  }
  return all;
}

Json prices(std::size_t bars) {
  Json all = Json::array();
  for (std::size_t i = 0; i < bars; ++i)
    all.push_back(100 + 10 * std::sin(static_cast<double>(i) / 5));
  return all;
}

std::vector<Long> long_ones() {
  const Json many = Json(std::vector<double>(20'000, 100.0));
  const auto option = [&](const char* model, Json more) {
    Json request = {{"model", model}, {"spot", many}, {"strike", 100}, {"t", 1}};
    if (std::string_view(model) != "heston") request["vol"] = 0.2;
    request.update(more);
    return request;
  };
  const Json covariance = [] {
    Json all = Json::array();
    for (int i = 0; i < 600; ++i) {
      Json row = Json(std::vector<double>(600, 0.01));
      row[static_cast<std::size_t>(i)] = 0.1 + 0.0001 * i;
      all.push_back(std::move(row));
    }
    return all;
  }();
  return {
      {"paths of many steps",
       "montecarlo",
       {{"payoff", "asian_price"}, {"steps", 100000}, {"paths", 1e6}}},
      {"paths of one step", "montecarlo", {{"payoff", "european"}, {"paths", 1e9}}},
      {"fast paths", "montecarlo", {{"payoff", "asian"}, {"steps", 100000}, {"paths", 1e7}}},
      {"deep trees", "option", option("binomial", {{"steps", 16384}})},
      {"deep trees of Europeans", "option",
       option("binomial", {{"steps", 16384}, {"exercise", "european"}})},
      {"american options", "option",
       option("american", {{"accuracy", "fine"}, {"kind", "put"}, {"rate", 0.05}})},
      {"Heston's integral that hardly falls", "option",
       option("heston", {{"v0", 1e-9}, {"theta", 1e-9}, {"sigma", 1e-4}, {"t", 1e-5}})},
      {"cuts of the CVaR", "portfolio", {{"goal", "min_cvar"}, {"returns", random_rows(60, 5000)}}},
      {"a frontier",
       "portfolio",
       {{"goal", "frontier"},
        {"points", 1000},
        {"covariance", covariance},
        {"mean", std::vector<double>(600, 0.1)}}},
      {"simulated tails",
       "risk",
       {{"returns", random_rows(200, 10)}, {"simulate", true}, {"paths", 1 << 23}}},
      {"windows that are read whole for each bar",
       "cci",
       {{"high", prices(200'000)},
        {"low", prices(200'000)},
        {"close", prices(200'000)},
        {"timeperiod", 90'000}}},
      {"american options one by one", "option",
       option("american", {{"accuracy", "fine"},
                           {"kind", "put"},
                           {"t", 1e3},
                           {"vol", 1e-3},
                           {"rate", 9.9},
                           {"div_yield", 9.8}})},
      {"a sweep",
       "backtest",
       {{"close", prices(50'000)},
        {"trading", {{"stop_loss", 0.1}}},
        {"parameters", {{"fast", "1:150"}, {"slow", "151:300"}}}}},
      {"a walk forward",
       "backtest",
       {{"close", prices(20'000)}, {"walk_forward", {{"in_sample", 2}, {"out_of_sample", 1}}}}},
  };
}

class Cancellation : public testing::TestWithParam<std::size_t> {};

TEST_P(Cancellation, EndsLongCalculationsSoon) {
  const Long one = long_ones()[GetParam()];
  SCOPED_TRACE(one.name);
  compute::Compute compute({.threads = 2});
  std::stop_source stop;
  Clock::time_point stopped;
  std::thread client([&] {
    std::this_thread::sleep_for(kLater);
    stopped = Clock::now();
    stop.request_stop();
  });
  const std::stop_token token = stop.get_token();
  const CancelScope scope(token);
  EXPECT_THROW(answer(compute, one.what, one.request), Cancelled);
  const auto ended = Clock::now();
  client.join();
  EXPECT_LT(ended - stopped, kSoon);
  RecordProperty("ms", std::to_string((ended - stopped) / std::chrono::milliseconds(1)));
  std::printf("%s: ended %d ms later\n", one.name,
              static_cast<int>((ended - stopped) / std::chrono::milliseconds(1)));
}

// Requests are read and estimated for nobody, too: a text of 32 million values took 4 s.
TEST(CancellationBeforeTheStart, StopsReadingAndEstimating) {
  compute::Compute compute({.threads = 2});
  std::stop_source stop;
  stop.request_stop();
  const std::stop_token token = stop.get_token();
  const CancelScope scope(token);
  EXPECT_THROW(axis_from("fast", "1,2,3"), Cancelled);
  std::string texts = "{\"kind\": [\"\"";
  for (int i = 0; i < 20'000; ++i) texts += ",\"\"";
  EXPECT_THROW(answer_text(compute, "option", texts + "]}"), Cancelled);
  const Json many = {
      {"model", "heston"}, {"spot", 1}, {"t", 1}, {"strike", std::vector<double>(1'000'000, 1)}};
  EXPECT_THROW(answer(compute, "option", many, {.max_work = 1}), Cancelled);
}

INSTANTIATE_TEST_SUITE_P(LongCalculations, Cancellation, testing::Range<std::size_t>(0, 14));

}  // namespace
}  // namespace sluice::market::cancelling
