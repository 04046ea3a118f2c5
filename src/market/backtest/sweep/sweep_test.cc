#include "market/backtest/sweep/sweep.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "market/backtest/engine/prices_for_tests.h"
#include "market/backtest/sweep/deflated_sharpe.h"

namespace sluice::market {
namespace {

void expect_same(double a, double b, const std::string& what) {
  if (std::isinf(a) && a == b) return;
  EXPECT_NEAR(a, b, 1e-9 * std::max({1.0, std::abs(a), std::abs(b)})) << what;
}

// Every metric of every set on every ticker is what the reference engine finds.
void expect_like_plain(Strategy strategy, const std::vector<ParameterSet>& sets,
                       const Trading& trading, Span span = {}) {
  compute::Compute compute({.threads = 2});
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const PriceHistory history = random_history(seed == 3 ? 64 : 700 + seed, seed);
    const SweepResult result =
        sweep(compute, {&history, 1},
              {.strategy = strategy, .sets = sets, .trading = trading, .span = span});
    ASSERT_EQ(result.sets.size(), sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const Metrics plain = run_backtest(history, {strategy, sets[i], trading, span}).metrics;
      const Metrics& fast = result.sets[i].metrics;
      const std::string what = std::string(to_string(strategy)) + " " +
                               describe(strategy, sets[i]) + " seed " + std::to_string(seed);
      EXPECT_EQ(fast.trades, plain.trades) << what;
      for (const Metric metric : all_metrics())
        expect_same(value(fast, metric), value(plain, metric),
                    what + " " + std::string(to_string(metric)));
    }
  }
}

std::vector<ParameterSet> some_sets(Strategy strategy) {
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross:
      return {{1, 2}, {2, 3}, {3, 10}, {5, 20}, {10, 63}, {10, 64}, {20, 200}, {50, 699}};
    case Strategy::rsi:
      return {{2, 30, 70}, {5, 20, 80}, {14, 40, 60}, {14, 49, 51}, {100, 45, 55}};
    case Strategy::bollinger:
      return {{5, 1, 0}, {20, 2, 0}, {20, 1.5, 0.5}, {60, 1, 1}, {10, 1, 2}};
    case Strategy::momentum: return {{1, 0}, {5, 0.02}, {20, 0}, {60, 0.1}, {400, 0}};
    case Strategy::swing:
      return {{2, 5, 3, 45}, {5, 20, 5, 40}, {20, 50, 14, 45}, {10, 30, 14, 50}};
  }
  return {};
}

class EveryStrategy : public testing::TestWithParam<Strategy> {
 protected:
  void expect(const Trading& trading, Span span = {}) {
    expect_like_plain(GetParam(), some_sets(GetParam()), trading, span);
  }
};

TEST_P(EveryStrategy, TradesMatchTheReferenceEngineLongOnly) { expect({}); }
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineWithoutCosts) {
  expect({.fee = 0, .slippage = 0, .risk_free = 0.03});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineAtCloses) { expect({.fill = Fill::next_close}); }
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineShort) { expect({.sides = Sides::short_only}); }
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineOnBothSides) {
  expect({.sides = Sides::both, .fixed_fee = 3, .fraction = 0.5, .risk_free = 0.02});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineWithStops) {
  expect({.sides = Sides::both, .stop_loss = 0.03, .take_profit = 0.06});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineWithStopsAtCloses) {
  expect({.sides = Sides::both, .fill = Fill::next_close, .stop_loss = 0.02, .take_profit = 0.04});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineByVolatility) {
  expect({.sides = Sides::both, .sizing = Sizing::volatility, .stop_loss = 0.05});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineWithFixedCash) {
  expect({.sizing = Sizing::cash, .cash = 30000});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineToItsRuin) {
  expect({.sides = Sides::short_only, .fee = 0.02, .fraction = 8});
}
TEST_P(EveryStrategy, TradesMatchTheReferenceEngineInAPartOfTheBars) {
  expect({}, {.first = 20, .end = 60});
  expect({.sides = Sides::both}, {.first = 30, .end = 64});
}

INSTANTIATE_TEST_SUITE_P(Backtest, EveryStrategy, testing::ValuesIn(strategies()),
                         [](const auto& i) { return std::string(to_string(i.param)); });

// One price that is far from the others takes no digits from the sets that do not hold it.
TEST(Sweep, AnExtremePriceDoesNotChangeTheResultsOfOtherSets) {
  compute::Compute compute({.threads = 2});
  for (const double price : {1e-30, 1e-9, 0.01, 1e4, 1e6, 1e9, 1e12, 1e30}) {
    std::vector<PriceHistory> histories;
    for (const std::uint64_t seed : {1u, 2u, 3u}) histories.push_back(random_history(400, seed));
    PriceHistory& h = histories[1];
    const std::size_t at = 210;
    h.open[at] = h.high[at] = h.low[at] = h.close[at] = price;
    for (const Strategy strategy : strategies()) {
      const std::vector<ParameterSet> sets = some_sets(strategy);
      for (const double fee : {0.0, 0.001}) {
        const SweepOptions options{.strategy = strategy, .sets = sets, .trading = {.fee = fee}};
        const SweepResult alone = sweep(compute, {&h, 1}, options);
        const SweepResult together = sweep(compute, histories, options);
        for (std::size_t i = 0; i < sets.size(); ++i) {
          double mean = 0;
          for (const auto& one : histories) {
            const Metrics plain = run_backtest(one, {strategy, sets[i], options.trading}).metrics;
            mean += plain.sharpe / 3;
            if (&one != &h) continue;
            const std::string what =
                describe(strategy, sets[i]) + " with a price of " + std::to_string(price);
            expect_same(alone.sets[i].metrics.sharpe, plain.sharpe, what);
            expect_same(alone.sets[i].metrics.sortino, plain.sortino, what);
            expect_same(alone.sets[i].metrics.max_drawdown, plain.max_drawdown, what);
          }
          expect_same(together.sets[i].metrics.sharpe, mean, "mean");
        }
      }
    }
  }
}

TEST(Sweep, MeansOverTickersAreThoseOfTheirAccounts) {
  compute::Compute compute({.threads = 2});
  std::vector<PriceHistory> histories;
  for (const std::uint64_t seed : {5u, 6u, 7u, 8u, 9u})
    histories.push_back(random_history(300 + 10 * seed, seed));
  const std::vector<ParameterSet> sets = {{3, 10}, {5, 20}, {10, 40}};
  const SweepResult result = sweep(compute, histories, {.sets = sets});
  for (std::size_t s = 0; s < sets.size(); ++s) {
    double equity = 0;
    std::int64_t trades = 0;
    for (const auto& h : histories) {
      const Backtest one = run_backtest(h, {.parameters = sets[s]});
      equity += one.equity.back() / 5;
      trades += one.metrics.trades;
    }
    expect_same(result.sets[s].metrics.final_equity, equity, "equity");
    EXPECT_EQ(result.sets[s].metrics.trades, trades);
  }
}

TEST(Sweep, TheBestOfEqualsIsTheFirst) {
  compute::Compute compute({.threads = 1});
  const PriceHistory history = random_history(400, 3);
  const SweepResult result =
      sweep(compute, {&history, 1}, {.sets = {{5, 20}, {3, 10}, {3, 10}, {5, 20}}});
  const auto ranking = result.ranking();
  EXPECT_EQ(result.best(), ranking.front());
  EXPECT_LT(ranking[0], ranking[1]);
  EXPECT_EQ(result.tickers[0].best, ranking.front());
}

TEST(Sweep, OneAndTwoThreadsGiveTheSameBits) {
  std::vector<PriceHistory> histories;
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u})
    histories.push_back(random_history(500, seed));
  const std::vector<Axis> axes = {axis_from("fast", "2:10"), axis_from("slow", "12:40:4")};
  const auto run = [&](int threads) {
    compute::Compute compute({.threads = threads});
    return sweep(compute, histories, {.sets = grid(Strategy::sma_cross, axes)});
  };
  const SweepResult one = run(1), two = run(2);
  for (std::size_t i = 0; i < one.sets.size(); ++i)
    EXPECT_EQ(one.sets[i].metrics.sharpe, two.sets[i].metrics.sharpe);
}

TEST(Sweep, ProgressIsReported) {
  compute::Compute compute({.threads = 1});
  const PriceHistory history = random_history(100, 1);
  SweepProgress last;
  sweep(compute, {&history, 1},
        {.sets = {{5, 20}, {3, 10}}, .progress = [&](const SweepProgress& p) { last = p; }});
  EXPECT_EQ(last.done, 2u);
  EXPECT_EQ(last.total, 2u);
  EXPECT_EQ(last.bar_sets, 198);
}

TEST(Sweep, ProgressReportsDoNotChangeTheResult) {
  compute::Compute compute({.threads = 2});
  std::vector<PriceHistory> histories;
  for (std::uint64_t seed = 1; seed <= 9; ++seed) histories.push_back(random_history(200, seed));
  const std::vector<Axis> axes = {axis_from("fast", "2:10"), axis_from("slow", "12:40:4")};
  SweepOptions options{.sets = grid(Strategy::sma_cross, axes)};
  const SweepResult alone = sweep(compute, histories, options);
  std::vector<std::size_t> done;
  options.progress = [&](const SweepProgress& p) { done.push_back(p.done); };
  const SweepResult watched = sweep(compute, histories, options);
  EXPECT_GE(done.size(), 3u);
  EXPECT_EQ(done.back(), 9 * options.sets.size());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  for (std::size_t i = 0; i < options.sets.size(); ++i)
    EXPECT_EQ(alone.sets[i].metrics.sharpe, watched.sets[i].metrics.sharpe) << i;
  for (std::size_t i = 0; i < histories.size(); ++i)
    EXPECT_EQ(alone.tickers[i].best, watched.tickers[i].best) << i;
}

TEST(Sweep, InvalidSweepsAreRefused) {
  compute::Compute compute({.threads = 1});
  PriceHistory history = random_history(100, 1);
  EXPECT_THROW(sweep(compute, {}, {.sets = {{5, 20}}}), Error);
  EXPECT_THROW(sweep(compute, {&history, 1}, {}), Error);
  EXPECT_THROW(sweep(compute, {&history, 1}, {.sets = {{20, 5}}}), Error);
  EXPECT_THROW(sweep(compute, {&history, 1}, {.sets = {{5, 20}}, .span = {.first = 0}}), Error);
  EXPECT_THROW(sweep(compute, {&history, 1}, {.sets = {{5, 20}}, .span = {1, 101}}), Error);
  history.open.clear();
  EXPECT_THROW(sweep(compute, {&history, 1}, {.sets = {{5, 20}}}), Error);
}

TEST(DeflatedSharpe, TheBestOfManyRandomTrialsIsNotSignificant) {
  compute::Compute compute({.threads = 1});
  PriceHistory history = random_history(1500, 11);
  const std::vector<Axis> axes = {axis_from("fast", "2:20"), axis_from("slow", "22:80:2")};
  const SweepResult result =
      sweep(compute, {&history, 1}, {.sets = grid(Strategy::sma_cross, axes)});
  const Backtest best =
      run_backtest(history, {.parameters = result.sets[result.best()].parameters});
  const DeflatedSharpe check = deflated_sharpe(result, best);
  EXPECT_EQ(check.trials, 570u);
  EXPECT_GT(check.expected_max_sharpe, 0.1);
  EXPECT_LT(check.probability, 0.95);
}

}  // namespace
}  // namespace sluice::market
