// Bars x parameter sets a second that a sweep does on this CPU: a line of JSON for each
// kind of trading. Best of 5; all threads, and by the time that cores were busy with it. The
// figures of a few sets are compared with the reference engine's before a time counts.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

#include "market/backtest/engine/prices_for_tests.h"
#include "market/backtest/sweep/sweep.h"

namespace sluice::market {
namespace {

constexpr std::size_t kTickers = 32, kBars = 5402;

bool agrees(const std::vector<PriceHistory>& prices, const SweepOptions& options,
            compute::Compute& compute) {
  const SweepResult one = sweep(compute, {prices.data(), 1}, options);
  for (std::size_t i = 0; i < options.sets.size(); i += 97) {
    const Metrics plain =
        run_backtest(prices[0], {options.strategy, options.sets[i], options.trading}).metrics;
    const Metrics& fast = one.sets[i].metrics;
    if (fast.trades != plain.trades || std::abs(fast.final_equity / plain.final_equity - 1) > 1e-9)
      return false;
  }
  return true;
}

void measure(const char* name, const std::vector<PriceHistory>& prices, SweepOptions options) {
  compute::Compute compute({});
  options.device = compute::DevicePreference::cpu;
  const bool same = agrees(prices, options, compute);
  double best = 0, best_of_core = 0;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begun = std::clock();
    const SweepResult result = sweep(compute, prices, options);
    const double busy = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    best = std::max(best, result.bar_sets / result.seconds);
    best_of_core = std::max(best_of_core, result.bar_sets / busy);
  }
  std::printf(
      "{\"bench\":\"%s\",\"rate\":%.4g,\"rate_of_a_busy_core\":%.4g,\"unit\":\"bar-sets/"
      "s\",\"tickers\":%zu,\"bars\":%zu,"
      "\"sets\":%zu,\"threads\":%d,\"agrees\":%s}\n",
      name, best, best_of_core, prices.size(), kBars, options.sets.size(),
      compute.workers().threads(), same ? "true" : "false");
  std::fflush(stdout);
}

}  // namespace
}  // namespace sluice::market

int main() {
  using namespace sluice::market;
  std::vector<PriceHistory> prices;
  for (std::size_t i = 0; i < kTickers; ++i) prices.push_back(random_history(kBars, 100 + i));
  const std::vector<Axis> axes = {axis_from("fast", "2:51:2"), axis_from("slow", "52:250:5")};
  const auto crosses = grid(Strategy::sma_cross, axes);
  measure("sma_cross", prices, {.sets = crosses});
  measure("ema_cross", prices, {.strategy = Strategy::ema_cross, .sets = crosses});
  const std::vector<Axis> strength = {axis_from("period", "5:30"), axis_from("lower", "20:40:2"),
                                      axis_from("upper", "60:80:5")};
  measure("rsi", prices, {.strategy = Strategy::rsi, .sets = grid(Strategy::rsi, strength)});
  prices.resize(8);
  measure("sma_cross_both_sides", prices, {.sets = crosses, .trading = {.sides = Sides::both}});
  measure("sma_cross_stops", prices,
          {.sets = crosses, .trading = {.stop_loss = 0.05, .take_profit = 0.1}});
}
