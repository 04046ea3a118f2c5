// Measures the cost of recording and of a query.
#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>

#include "watch/history/history.h"

namespace sluice::watch {
namespace {

constexpr std::size_t kMetrics = 30;

std::string gpu_name(int i) {
  return "GPU-8f6d3c1e-0000-4000-8000-00000000000" + std::to_string(i);
}

void set_all(device::Readings& readings, Instant at, double value) {
  for (std::size_t m = 0; m < kMetrics; ++m)
    readings.set(static_cast<device::Metric>(m), value + static_cast<double>(m) * 1.37, at);
}

// One second of eight GPUs with 30 new values each; the goal is well under 100 us.
void BM_AddOneSecondOfEightGpus(benchmark::State& state) {
  History history({});
  Instant now = Steady::now();
  WallTime wall = std::chrono::system_clock::now();
  device::Readings readings[8];
  double value = 0;
  for (auto _ : state) {
    state.PauseTiming();
    now += std::chrono::seconds(1), wall += std::chrono::seconds(1);
    for (auto& r : readings) set_all(r, now, value += 0.1);
    state.ResumeTiming();
    for (int i = 0; i < 8; ++i) history.add(gpu_name(i), readings[i], now, wall);
  }
  state.counters["values"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 8 * kMetrics, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_AddOneSecondOfEightGpus)->Iterations(3000);

// The same readings again, as when a snapshot is published before the next sample.
void BM_AddNothingNew(benchmark::State& state) {
  History history({});
  const Instant now = Steady::now();
  const WallTime wall = std::chrono::system_clock::now();
  device::Readings readings;
  set_all(readings, now, 1);
  for (auto _ : state) history.add("GPU-1", readings, now, wall);
}
BENCHMARK(BM_AddNothingNew);

// An hour of one GPU for a chart: two metrics, `range` points.
void BM_QueryAnHour(benchmark::State& state) {
  History history({});
  Instant now = Steady::now();
  WallTime wall = std::chrono::system_clock::now();
  device::Readings readings;
  for (int s = 0; s < 3600; ++s) {
    now += std::chrono::seconds(1), wall += std::chrono::seconds(1);
    set_all(readings, now, s);
    history.add("GPU-1", readings, now, wall);
  }
  history.flush();
  const HistoryQuery query{"GPU-1",
                           {"utilization", "memory_used"},
                           unix_ms(wall) - 3'600'000,
                           unix_ms(wall),
                           static_cast<int>(state.range(0))};
  for (auto _ : state) benchmark::DoNotOptimize(history.query(query, wall).dump());
}
BENCHMARK(BM_QueryAnHour)->Arg(600)->Arg(4000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::watch
