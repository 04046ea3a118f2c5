// Points per second of the risk functions on all cores. Peer: vectorbt's Rust engine, by
// its published table, does 0.4 to 1.0 G returns/s for one metric at a time.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/tail.h"

namespace sluice::market {
namespace {

std::vector<double> random_returns(std::size_t n) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0.0004, 0.01);
  std::vector<double> r(n);
  for (double& x : r) x = normal(random);
  return r;
}

void points_per_second(benchmark::State& state, std::size_t points) {
  state.counters["points/s"] =
      benchmark::Counter(static_cast<double>(points) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void bm_metrics(benchmark::State& state) {
  const auto series = static_cast<std::size_t>(state.range(0));
  const auto bars = static_cast<std::size_t>(state.range(1));
  const auto returns = random_returns(series * bars);
  std::vector<RiskMetrics> out(series);
  compute::Compute compute({});
  for (auto _ : state) risk_metrics(compute, returns, bars, {}, out, {}, compute::Where::cpu);
  points_per_second(state, returns.size());
}
BENCHMARK(bm_metrics)->Args({20, 1000})->Args({1000, 10000})->Args({1, 10'000'000})->UseRealTime();

void bm_tail(benchmark::State& state) {
  const auto series = static_cast<std::size_t>(state.range(0));
  const auto bars = static_cast<std::size_t>(state.range(1));
  const auto returns = random_returns(series * bars);
  std::vector<TailRisk> out(series);
  compute::Compute compute({});
  for (auto _ : state) tail_risk(compute, returns, bars, out, {}, compute::Where::cpu);
  points_per_second(state, returns.size());
}
BENCHMARK(bm_tail)->Args({100, 1000})->Args({1000, 10000})->UseRealTime();

// 2 operations for each pair of series (half of them) and bar.
void bm_covariance(benchmark::State& state) {
  const auto series = static_cast<std::size_t>(state.range(0));
  const auto bars = static_cast<std::size_t>(state.range(1));
  const auto returns = random_returns(series * bars);
  std::vector<double> out(series * series);
  compute::Compute compute({});
  for (auto _ : state) covariance(compute, returns, series, bars, out, {}, {}, compute::Where::cpu);
  const auto n = static_cast<double>(series);
  state.counters["FLOP/s"] = benchmark::Counter(
      n * (n + 1) * static_cast<double>(bars) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}
BENCHMARK(bm_covariance)->Args({20, 1260})->Args({500, 1260})->Args({1000, 2520})->UseRealTime();

}  // namespace
}  // namespace sluice::market
