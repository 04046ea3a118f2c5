#include "market/backtest/sweep/walk_forward.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "market/backtest/engine/prices_for_tests.h"

namespace sluice::market {
namespace {

WalkForwardOptions small() {
  const std::vector<Axis> axes = {axis_from("fast", "2:8:2"), axis_from("slow", "10:40:10")};
  WalkForwardOptions options;
  options.sweep.sets = grid(Strategy::sma_cross, axes);
  options.in_sample = 200;
  options.out_of_sample = 50;
  return options;
}

TEST(WalkForward, EveryBarAfterTheFirstWindowIsTradedOnce) {
  compute::Compute compute({.threads = 2});
  const PriceHistory h = random_history(520, 3);
  const WalkForward result = walk_forward(compute, {&h, 1}, small());
  ASSERT_EQ(result.windows.size(), 7u);
  EXPECT_EQ(result.windows[0].traded.first, 201);
  for (std::size_t i = 1; i < result.windows.size(); ++i)
    EXPECT_EQ(result.windows[i].traded.first, result.windows[i - 1].traded.end);
  EXPECT_EQ(result.windows.back().traded.end, 520);
  EXPECT_EQ(result.equity.size(), 520u - 200);
  EXPECT_EQ(result.days.size(), result.equity.size());
}

TEST(WalkForward, EachWindowTradesTheBestSetOfTheBarsBefore) {
  compute::Compute compute({.threads = 2});
  const PriceHistory h = random_history(400, 5);
  WalkForwardOptions options = small();
  const WalkForward result = walk_forward(compute, {&h, 1}, options);
  for (const auto& window : result.windows) {
    options.sweep.span = window.chosen_by;
    const SweepResult alone = sweep(compute, {&h, 1}, options.sweep);
    EXPECT_EQ(alone.sets[alone.best()].parameters, window.parameters);
    EXPECT_LE(window.chosen_by.end, window.traded.first);
  }
}

TEST(WalkForward, LaterBarsDoNotChangeAWindow) {
  compute::Compute compute({.threads = 2});
  PriceHistory h = random_history(400, 6);
  const WalkForward before = walk_forward(compute, {&h, 1}, small());
  for (std::size_t i = 301; i < 400; ++i)
    for (auto* array : {&h.open, &h.high, &h.low, &h.close}) (*array)[i] *= i % 2 == 0 ? 2 : 0.5;
  const WalkForward after = walk_forward(compute, {&h, 1}, small());
  for (std::size_t i = 0; i <= 300 - 200; ++i) EXPECT_EQ(before.equity[i], after.equity[i]) << i;
  EXPECT_EQ(before.windows[1].parameters, after.windows[1].parameters);
}

TEST(WalkForward, TheCurveOfOneTickerIsThatOfItsBacktests) {
  compute::Compute compute({.threads = 1});
  const PriceHistory h = random_history(300, 7);
  const WalkForward result = walk_forward(compute, {&h, 1}, small());
  double cash = 100000;
  for (const auto& w : result.windows) {
    const Backtest test = run_backtest(h, {Strategy::sma_cross, w.parameters, Trading{}, w.traded});
    cash *= test.equity.back() / 100000;
    EXPECT_NEAR(w.out_of_sample.profit_factor, test.metrics.profit_factor, 1e-12);
  }
  EXPECT_NEAR(result.equity.back(), cash, 1e-6);
}

// Profits less losses are what the account grew by, so the factor is that of its own trades.
TEST(WalkForward, TheProfitFactorIsOfTheTradesOfTheOneAccount) {
  compute::Compute compute({.threads = 1});
  const PriceHistory h = random_history(500, 8);
  const WalkForward result = walk_forward(compute, {&h, 1}, small());
  double cash = 100000, profits = 0, losses = 0;
  for (const auto& w : result.windows) {
    const Backtest test = run_backtest(h, {Strategy::sma_cross, w.parameters, Trading{}, w.traded});
    for (const Trade& trade : test.trades)
      (trade.profit > 0 ? profits : losses) += std::abs(trade.profit) * cash / 100000;
    cash *= test.equity.back() / 100000;
  }
  EXPECT_NEAR(profits - losses, result.equity.back() - 100000, 1e-6);
  EXPECT_NEAR(result.metrics.profit_factor, profits / losses, 1e-12);
  EXPECT_GT(result.metrics.profit_factor, 0);
}

TEST(WalkForward, TooFewBarsAndUnequalTickersAreRefused) {
  compute::Compute compute({.threads = 1});
  std::vector<PriceHistory> two = {random_history(150, 1), random_history(160, 2)};
  EXPECT_THROW(walk_forward(compute, {two.data(), 1}, small()), Error);
  EXPECT_THROW(walk_forward(compute, two, small()), Error);
  EXPECT_THROW(walk_forward(compute, {}, small()), Error);
  two[1] = random_history(150, 2);
  for (auto& day : two[1].days) ++day;
  try {
    walk_forward(compute, two, small());
    FAIL() << "bars of other days were joined";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("different days"));
  }
}

}  // namespace
}  // namespace sluice::market
