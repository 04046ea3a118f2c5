// Sweeps on the GPU: the trades of the reference engine, and its money to 1e-9.
#include <gmock/gmock.h>

#include <cmath>

#include "market/backtest/engine/prices_for_tests.h"
#include "market/backtest/sweep/sweep.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

class SweepOnGpu : public testing::TestWithParam<Strategy> {
 protected:
  // Several tickers of different lengths, none of them whole words of bars.
  static std::vector<PriceHistory> histories() {
    std::vector<PriceHistory> all;
    for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u})
      all.push_back(random_history(seed == 3 ? 65 : 700 + 31 * seed, seed));
    return all;
  }

  static std::vector<ParameterSet> sets(Strategy strategy) {
    switch (strategy) {
      case Strategy::sma_cross:
      case Strategy::ema_cross:
        return grid(strategy,
                    std::vector{axis_from("fast", "1:13:2"), axis_from("slow", "5:90:5")});
      case Strategy::rsi:
        return grid(strategy,
                    std::vector{axis_from("period", "2:30:4"), axis_from("lower", "20:45:5"),
                                axis_from("upper", "55:80:5")});
      case Strategy::bollinger:
        return grid(strategy,
                    std::vector{axis_from("period", "5:60:5"), axis_from("width", "1:3:0.5"),
                                axis_from("exit", "0:1:0.5")});
      case Strategy::momentum:
        return grid(strategy, std::vector{axis_from("period", "1:60:3"),
                                          axis_from("threshold", "0,0.01,0.05")});
      case Strategy::swing:
        return grid(strategy,
                    std::vector{axis_from("fast", "2:10:4"), axis_from("slow", "12:40:7"),
                                axis_from("period", "3:14"), axis_from("level", "35:50:5")});
    }
    return {};
  }

  void expect_like_plain(const Trading& trading, Span span = {}) {
    const auto prices = histories();
    const Strategy strategy = GetParam();
    const SweepOptions options{.strategy = strategy,
                               .sets = sets(strategy),
                               .trading = trading,
                               .span = span,
                               .device = DevicePreference::gpu};
    for (const PriceHistory& h : prices) {
      const SweepResult result = sweep(*compute, {&h, 1}, options);
      for (std::size_t i = 0; i < options.sets.size(); i += 7) {
        const Metrics plain = run_backtest(h, {strategy, options.sets[i], trading, span}).metrics;
        expect_same(result.sets[i].metrics, plain, h.ticker + describe(strategy, options.sets[i]));
      }
    }
    const SweepResult together = sweep(*compute, prices, options);
    SweepOptions on_cpu = options;
    on_cpu.device = DevicePreference::cpu;
    const SweepResult cpu = sweep(*compute, prices, on_cpu);
    const SweepResult again = sweep(*compute, prices, options);
    for (std::size_t i = 0; i < options.sets.size(); ++i) {
      expect_same(together.sets[i].metrics, cpu.sets[i].metrics, "all tickers");
      ASSERT_EQ(together.sets[i].metrics.sharpe, again.sets[i].metrics.sharpe);
    }
  }

  static void expect_same(const Metrics& a, const Metrics& b, const std::string& what) {
    ASSERT_EQ(a.trades, b.trades) << what;
    for (const Metric metric : all_metrics()) {
      const double x = value(a, metric), y = value(b, metric);
      if (std::isinf(x) && x == y) continue;
      ASSERT_NEAR(x, y, 1e-9 * std::max({1.0, std::abs(x), std::abs(y)}))
          << what << " " << to_string(metric);
    }
  }

  std::unique_ptr<compute::Compute> compute = compute::make_compute("gpu");
};

TEST_P(SweepOnGpu, TradesMatchTheReferenceEngineLongOnly) { expect_like_plain({}); }
TEST_P(SweepOnGpu, TradesMatchTheReferenceEngineAtClosesAboveRiskFree) {
  expect_like_plain({.fill = Fill::next_close, .fee = 0, .slippage = 0, .risk_free = 0.03});
}
TEST_P(SweepOnGpu, TradesMatchTheReferenceEngineOnBothSidesWithStops) {
  expect_like_plain({.sides = Sides::both, .fixed_fee = 2, .stop_loss = 0.03, .take_profit = 0.06});
}
TEST_P(SweepOnGpu, TradesMatchTheReferenceEngineByVolatility) {
  expect_like_plain({.sides = Sides::both, .sizing = Sizing::volatility});
}
TEST_P(SweepOnGpu, TradesMatchTheReferenceEngineInAPartOfTheBars) {
  expect_like_plain({}, {.first = 20, .end = 60});
  expect_like_plain({.sides = Sides::both}, {.first = 33, .end = 64});
}

INSTANTIATE_TEST_SUITE_P(Backtest, SweepOnGpu, testing::ValuesIn(strategies()),
                         [](const auto& i) { return std::string(to_string(i.param)); });

// More rows than fit into shared memory.
TEST(SweepOnGpuWithManyRows, ResultsAgreeWithTheCpu) {
  const auto compute = compute::make_compute("gpu");
  const PriceHistory h = random_history(1500, 9);
  SweepOptions options;
  for (int i = 1; i < 1000; ++i) options.sets.push_back({double(i), double(i + 1)});
  options.device = DevicePreference::gpu;
  const SweepResult gpu = sweep(*compute, {&h, 1}, options);
  options.device = DevicePreference::cpu;
  const SweepResult cpu = sweep(*compute, {&h, 1}, options);
  for (std::size_t i = 0; i < options.sets.size(); ++i) {
    EXPECT_EQ(gpu.sets[i].metrics.trades, cpu.sets[i].metrics.trades) << i;
    EXPECT_NEAR(gpu.sets[i].metrics.final_equity, cpu.sets[i].metrics.final_equity, 1e-4);
  }
}

}  // namespace
}  // namespace sluice::market
