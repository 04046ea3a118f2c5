// Bars x parameter sets a second that a sweep does on this GPU: lines of JSON, with the
// share of 1.5e12, what an H200 could issue at 22 instructions a bar-set. Prices lie on the
// device; CUDA events, median of 21; and once from host memory to host memory. The first
// ticker is compared with the plain engine.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "compute/lane.h"
#include "device/device_buffer.h"
#include "device/launch.cuh"
#include "market/backtest/prices_for_tests.h"
#include "market/backtest/sweep_call.h"
#include "market/backtest/sweep_gpu.h"
#include "memory/cuda.h"
#include "memory/pool.h"

namespace sluice::market {
namespace {

using device::check;

constexpr int kRuns = 21;
constexpr double kLimit = 1.5e12;

struct Machine {
  device::DeviceId id{0};
  device::DeviceScope scope{id};
  device::Stream stream{id};
  std::unique_ptr<memory::Arena> arena = memory::make_cuda_arena(0, std::size_t{64} << 30);
  memory::Pool pool{"bench", *arena, {}};
};

struct Resident {
  std::vector<device::DeviceBuffer> keep;
  compute::Call call;

  explicit Resident(const compute::Call& host) : call(host) {
    for (auto* operands : {&call.in, &call.out})
      for (auto& operand : *operands) {
        const std::size_t bytes = operand.bytes(host.items);
        keep.push_back(device::device_buffer(bytes));
        check(cudaMemcpy(keep.back().get(), operand.data, bytes, cudaMemcpyHostToDevice));
        operand.data = keep.back().get();
        operand.side = compute::Side::device;
      }
  }
};

double median_seconds(Machine& m, const compute::Call& call) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> ms;
  for (int i = 0; i < kRuns + 3; ++i) {
    compute::Lane lane(m.stream, m.pool);
    check(cudaEventRecord(begin, m.stream.get()));
    sweep_gpu(call, lane);
    check(cudaEventRecord(end, m.stream.get()));
    check(cudaEventSynchronize(end));
    float t = 0;
    check(cudaEventElapsedTime(&t, begin, end));
    if (i >= 3) ms.push_back(t);  // the first ones load the kernels and take memory
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(ms.begin(), ms.begin() + kRuns / 2, ms.end());
  return ms[kRuns / 2] * 1e-3;
}

bool agrees(const PriceHistory& prices, const SweepOptions& options,
            const std::vector<Tally>& tallies) {
  for (std::size_t i = 0; i < options.sets.size(); i += 37) {
    const Metrics plain =
        run_backtest(prices, {options.strategy, options.sets[i], options.trading, {}}).metrics;
    if (tallies[i].trades != plain.trades ||
        std::abs(tallies[i].equity / plain.final_equity - 1) > 1e-9)
      return false;
  }
  return true;
}

void measure(Machine& m, const char* name, const std::vector<PriceHistory>& prices,
             const SweepOptions& options) {
  std::vector<Tally> tallies(prices.size() * options.sets.size());
  const SweepCall host(prices, options, options.sets, tallies.data());
  const Resident resident(host.call());
  const double seconds = median_seconds(m, resident.call);
  check(cudaMemcpy(tallies.data(), resident.call.out[0].data, tallies.size() * sizeof(Tally),
                   cudaMemcpyDeviceToHost));
  const double work = host.bars_traded() * static_cast<double>(options.sets.size());
  std::printf(
      "{\"bench\":\"%s\",\"rate\":%.4g,\"unit\":\"bar-sets/s\",\"limit\":%.4g,"
      "\"percent_of_limit\":%.1f,\"ms\":%.3f,\"tickers\":%zu,\"sets\":%zu,\"agrees\":%s}\n",
      name, work / seconds, kLimit, 100 * work / seconds / kLimit, seconds * 1e3, prices.size(),
      options.sets.size(), agrees(prices[0], options, tallies) ? "true" : "false");
  std::fflush(stdout);
}

void measure_from_host(const std::vector<PriceHistory>& prices, SweepOptions options) {
  const auto compute = compute::make_compute("gpu");
  options.where = compute::Where::gpu;
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const SweepResult result = sweep(*compute, prices, options);
    best = std::max(best, result.bar_sets / result.seconds);
  }
  std::printf(
      "{\"bench\":\"sma_cross_host_to_host\",\"rate\":%.4g,\"unit\":\"bar-sets/s\","
      "\"limit\":%.4g,\"percent_of_limit\":%.1f}\n",
      best, kLimit, 100 * best / kLimit);
}

void measure_all() {
  Machine machine;
  std::vector<PriceHistory> prices;
  for (std::size_t i = 0; i < 505; ++i) prices.push_back(random_history(5402, 100 + i));
  const std::vector<Axis> axes = {axis_from("fast", "2:101"), axis_from("slow", "102:300:2")};
  const SweepOptions crosses{.sets = grid(Strategy::sma_cross, axes)};
  measure(machine, "sma_cross", prices, crosses);
  SweepOptions other = crosses;
  other.strategy = Strategy::ema_cross;
  measure(machine, "ema_cross", prices, other);
  other.trading.sides = Sides::both;
  other.trading.stop_loss = 0.05;
  prices.resize(64);
  measure(machine, "ema_cross_both_sides_stops", prices, other);
  measure_from_host(prices, crosses);
}

}  // namespace
}  // namespace sluice::market

int main() { sluice::market::measure_all(); }
