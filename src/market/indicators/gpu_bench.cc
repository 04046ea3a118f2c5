// Bandwidth of the indicators on a GPU, arrays in its memory: JSON, one line per indicator
// and shape, with the part of a copy's bandwidth that was reached.
//
//   market_indicators_gpu_bench [series bars]...      default: 10000 10000 1 100000000
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "compute/lane.h"
#include "compute/workers.h"
#include "device/check.h"
#include "device/device_buffer.h"
#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "memory/cuda.h"

namespace {

using namespace sluice;
using device::check;

constexpr int kRounds = 20;

struct Event {
  cudaEvent_t event{};
  Event() { check(cudaEventCreate(&event)); }
  ~Event() { device::check_in_destructor(cudaEventDestroy(event)); }
  Event(const Event&) = delete;
};

// Median seconds of `work`, which queues on the stream.
template <class Work>
double median_seconds(const device::Stream& stream, Work work) {
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> all;
  for (int i = 0; i < kRounds; ++i) {
    const Event begin, end;
    check(cudaEventRecord(begin.event, stream.get()));
    work();
    check(cudaEventRecord(end.event, stream.get()));
    check(cudaEventSynchronize(end.event));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event, end.event));
    all.push_back(ms / 1e3);
  }
  std::nth_element(all.begin(), all.begin() + kRounds / 2, all.end());
  return all[kRounds / 2];
}

std::vector<double> walks(std::size_t series, std::size_t bars) {
  std::vector<double> prices(series * bars);
  std::mt19937_64 random(7);
  for (std::size_t s = 0; s < series; ++s) {
    double price = 100;
    for (std::size_t t = 0; t < bars; ++t) {
      price *= 1 + (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 0.02;
      if (price < 1 || price > 1e4) price = 100;
      prices[s * bars + t] = price;
    }
  }
  return prices;
}

struct Bench {
  std::size_t series, bars;
  std::vector<double> prices = walks(series, bars);
  std::size_t bytes = prices.size() * sizeof(double);
  device::Stream stream{{0}};
  std::unique_ptr<memory::Allocator> allocator = memory::make_cuda_allocator(0);
  device::DeviceBuffer in = device::device_buffer(bytes);
  std::vector<device::DeviceBuffer> out{};
  double copy = 0;  // bytes per second, read and written

  void prepare() {
    check(cudaMemcpy(in.get(), prices.data(), bytes, cudaMemcpyHostToDevice));
    for (int i = 0; i < market::kMostOutputs; ++i) out.push_back(device::device_buffer(bytes));
    copy = 2.0 * static_cast<double>(bytes) / median_seconds(stream, [&] {
             check(cudaMemcpyAsync(out[0].get(), in.get(), bytes, cudaMemcpyDeviceToDevice,
                                   stream.get()));
           });
  }

  compute::Call call(const market::Batch& batch) {
    compute::Call made{.parameters = &batch, .parameters_bytes = sizeof batch};
    made.items = series;
    for (int k = 0; k < batch.plan.inputs; ++k)
      made.in.push_back({.data = in.get(), .item_bytes = bars * sizeof(double)});
    for (int k = 0; k < batch.plan.outputs; ++k)
      made.out.push_back(
          {.data = out[static_cast<std::size_t>(k)].get(), .item_bytes = bars * sizeof(double)});
    return made;
  }

  // The largest relative difference from the CPU in the first output.
  double difference(const market::Batch& batch) {
    std::vector<double> wanted(prices.size()), more(prices.size()), most(prices.size()),
        made(prices.size());
    std::vector<double>* to[] = {&wanted, &more, &most};
    compute::Call host = call(batch);
    for (auto& operand : host.in) operand.data = prices.data();
    for (std::size_t k = 0; k < host.out.size(); ++k) host.out[k].data = to[k]->data();
    compute::Workers workers;
    market::batch_on_cpu(host, workers);
    check(cudaMemcpy(made.data(), out[0].get(), bytes, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (std::isnan(made[i]) != std::isnan(wanted[i])) return INFINITY;
      if (!std::isnan(made[i]))
        worst =
            std::max(worst, std::fabs(made[i] - wanted[i]) / std::max(std::fabs(wanted[i]), 1.0));
    }
    return worst;
  }

  void measure(std::string_view name) {
    const market::Batch batch{.plan = market::indicator(name).plan(),
                              .bars = static_cast<std::int64_t>(bars)};
    const compute::Call made = call(batch);
    check(cudaMemset(out[0].get(), 0x5a, bytes));
    compute::Lane lane(stream, *allocator);
    const double seconds =
        median_seconds(stream, [&] { market::batch_gpu_function()(made, lane); });
    const double points = static_cast<double>(prices.size());
    const double moved = points * 8 * (batch.plan.inputs + batch.plan.outputs) / seconds;
    std::printf(
        "{\"indicator\": \"%s\", \"series\": %zu, \"bars\": %zu, \"ms\": %.4f, \"gpt_per_s\": "
        "%.2f, "
        "\"gb_per_s\": %.1f, \"copy_gb_per_s\": %.1f, \"of_copy\": %.3f, \"difference\": %.2e}\n",
        std::string(name).c_str(), series, bars, seconds * 1e3, points / seconds / 1e9, moved / 1e9,
        copy / 1e9, moved / copy, difference(batch));
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> shapes = {10000, 10000, 1, 100000000};
  if (argc > 2) shapes.clear();
  for (int i = 1; i + 1 < argc; i += 2) {
    shapes.push_back(std::strtoull(argv[i], nullptr, 10));
    shapes.push_back(std::strtoull(argv[i + 1], nullptr, 10));
  }
  for (std::size_t i = 0; i + 1 < shapes.size(); i += 2) {
    Bench bench{.series = shapes[i], .bars = shapes[i + 1]};
    bench.prepare();
    for (const std::string_view name :
         {"EMA", "SMA", "RSI", "BBANDS", "MACD", "WMA", "ROC", "STDDEV", "MAX", "STOCHRSI"})
      bench.measure(name);
  }
}
