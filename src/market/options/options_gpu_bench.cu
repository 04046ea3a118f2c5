// What the option kernels reach on this GPU: a line of JSON for each, with the physical
// limit of an H200 and the share of it, from arrays that lie on the device, by CUDA events,
// median of 25 runs. Every result is compared with the CPU's before it counts.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "compute/lane.h"
#include "device/device_buffer.h"
#include "device/launch.cuh"
#include "market/montecarlo/asian.h"
#include "market/options/american.h"
#include "market/options/american_formula.h"
#include "market/options/binomial.h"
#include "market/options/binomial_kernels.h"
#include "market/options/black_scholes.h"
#include "market/options/curand_peer.cuh"
#include "memory/cuda.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Operand;
using compute::Side;
using device::check;

constexpr int kRuns = 25;

struct Machine {
  device::DeviceId id{0};
  device::DeviceScope scope{id};
  device::Stream stream{id};
  std::unique_ptr<memory::Allocator> memory = memory::make_cuda_allocator(0);
};

// A copy on the device, of as many bytes.
template <class T>
Operand resident(std::vector<device::DeviceBuffer>& keep, const std::vector<T>& host,
                 bool shared = false) {
  keep.push_back(device::device_buffer(host.size() * sizeof(T)));
  check(
      cudaMemcpy(keep.back().get(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return {.data = keep.back().get(),
          .item_bytes = shared ? 0 : sizeof(T),
          .shared_bytes = shared ? sizeof(T) : 0,
          .side = Side::device};
}

template <class Run>
double median_seconds(Machine& m, Run run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> ms;
  for (int i = 0; i < kRuns + 3; ++i) {
    check(cudaEventRecord(begin, m.stream.get()));
    run();
    check(cudaEventRecord(end, m.stream.get()));
    check(cudaEventSynchronize(end));
    float t = 0;
    check(cudaEventElapsedTime(&t, begin, end));
    if (i >= 3) ms.push_back(t);  // the first ones load the kernels
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(ms.begin(), ms.begin() + kRuns / 2, ms.end());
  return ms[kRuns / 2] * 1e-3;
}

void report(const char* what, double rate, double limit, const char* unit, double error) {
  std::printf(
      "{\"bench\":\"%s\",\"rate\":%.4g,\"unit\":\"%s\",\"limit\":%.4g,"
      "\"percent_of_limit\":%.1f,\"max_error\":%.2g}\n",
      what, rate, unit, limit, 100 * rate / limit, error);
  std::fflush(stdout);
}

template <class T>
std::vector<T> draw(std::size_t n, double low, double high, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(uniform(random));
  return values;
}

// Greatest difference of the first values on the device from `want`.
template <class T>
double difference(const Operand& out, const std::vector<T>& want) {
  std::vector<T> got(want.size());
  check(cudaMemcpy(got.data(), out.data, want.size() * sizeof(T), cudaMemcpyDeviceToHost));
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - want[i]));
  return worst;
}

constexpr std::size_t kChecked = 4096;

template <class T>
void bench_black_scholes(Machine& m, compute::Compute& cpu, const char* name, double limit) {
  const std::size_t n = std::size_t{1} << 26;
  const auto s = draw<T>(n, 50, 150, 1), k = draw<T>(n, 50, 150, 2), t = draw<T>(n, 0.1, 2, 3);
  std::vector<device::DeviceBuffer> keep;
  Call call{.items = n};
  call.in = {resident(keep, s),
             resident(keep, k),
             resident(keep, t),
             resident<T>(keep, {T(0.03)}, true),
             resident<T>(keep, {T(0.01)}, true),
             resident<T>(keep, {T(0.25)}, true)};
  call.out = {resident(keep, std::vector<T>(n)), resident(keep, std::vector<T>(n))};
  compute::Lane lane(m.stream, *m.memory);
  const double seconds = median_seconds(m, [&] { black_scholes_operation<T>().gpu(call, lane); });
  std::vector<T> c(kChecked), p(kChecked);
  const auto head = [](const std::vector<T>& v) { return std::span<const T>(v.data(), kChecked); };
  black_scholes<T>(cpu, {head(s), head(k), head(t), T(0.03), T(0.01), T(0.25)}, c, p);
  report(name, static_cast<double>(n) / seconds, limit, "pairs/s",
         std::fmax(difference(call.out[0], c), difference(call.out[1], p)));
}

struct TreeColumns {
  std::vector<double> s, k, t, r, v;
  explicit TreeColumns(std::size_t n)
      : s(draw<double>(n, 90, 110, 1)),
        k(draw<double>(n, 90, 110, 2)),
        t(draw<double>(n, 0.5, 1.5, 3)),
        r(draw<double>(n, 0.02, 0.08, 4)),
        v(draw<double>(n, 0.2, 0.4, 5)) {}
  Call on_device(std::vector<device::DeviceBuffer>& keep) const {
    Call call{.items = s.size()};
    call.in = {resident(keep, s),
               resident(keep, k),
               resident(keep, t),
               resident(keep, r),
               resident<double>(keep, {0.02}, true),
               resident(keep, v)};
    call.out = {resident(keep, std::vector<double>(s.size()))};
    return call;
  }
  OptionColumns<double> head(std::size_t n) const {
    const auto first = [n](const std::vector<double>& c) {
      return std::span<const double>(c.data(), n);
    };
    return {first(s), first(k), first(t), first(r), 0.02, first(v)};
  }
};

void bench_binomial(Machine& m, compute::Compute& cpu) {
  const TreeColumns columns(250000);
  std::vector<device::DeviceBuffer> keep;
  Call call = columns.on_device(keep);
  const TreeParameters tree{.call = 0, .american = 1, .steps = 1024};
  call.parameters = &tree;
  call.parameters_bytes = sizeof tree;
  compute::Lane lane(m.stream, *m.memory);
  const double seconds = median_seconds(m, [&] { binomial_operation().gpu(call, lane); });
  std::vector<double> want(512);
  binomial(cpu, columns.head(512), {}, want);
  report("american_binomial_1024", static_cast<double>(call.items) / seconds, 10.6e6, "options/s",
         difference(call.out[0], want));
}

void bench_american(Machine& m, compute::Compute& cpu, AmericanAccuracy accuracy, const char* name,
                    double limit) {
  const TreeColumns columns(1000000);
  std::vector<device::DeviceBuffer> keep;
  Call call = columns.on_device(keep);
  const std::vector<formula::AmericanTables> tables{american_tables(accuracy, OptionKind::put)};
  call.in.push_back(resident(keep, tables, true));
  compute::Lane lane(m.stream, *m.memory);
  const double seconds = median_seconds(m, [&] { american_operation().gpu(call, lane); });
  std::vector<double> want(512);
  american(cpu, columns.head(512), OptionKind::put, want, accuracy);
  report(name, static_cast<double>(call.items) / seconds, limit, "options/s",
         difference(call.out[0], want));
}

void bench_asian(Machine& m, compute::Compute& cpu, bool mirror, double limit) {
  const AsianOption option{.fixings = 252, .first_fixing = 1.0 / 252, .span = 251.0 / 252};
  const SimulationOptions simulation{.antithetic = mirror};
  const AsianPlan plan = asian_plan(option, simulation);
  const std::size_t blocks = mirror ? 16384 : 32768;  // 64 M paths
  std::vector<device::DeviceBuffer> keep;
  Call call{.items = blocks};
  call.out = {resident(keep, std::vector<BlockSums>(blocks))};
  call.parameters = &plan;
  call.parameters_bytes = sizeof plan;
  compute::Lane lane(m.stream, *m.memory);
  const double seconds = median_seconds(m, [&] { asian_operation().gpu(call, lane); });
  std::vector<BlockSums> got(8), want(8);
  check(cudaMemcpy(got.data(), call.out[0].data, 8 * sizeof(BlockSums), cudaMemcpyDeviceToHost));
  Call on_cpu{.out = {{.data = want.data(), .item_bytes = sizeof(BlockSums)}},
              .parameters = &plan,
              .parameters_bytes = sizeof plan,
              .items = 8};
  asian_operation().cpu(on_cpu, cpu.workers());
  double worst = 0;
  for (std::size_t i = 0; i < 8; ++i)
    worst = std::fmax(worst, std::fabs(got[i].x - want[i].x) / kAsianBlock);
  const double steps =
      static_cast<double>(blocks) * kAsianBlock * (mirror ? 2 : 1) * option.fixings;
  report(mirror ? "asian_mirrored" : "asian", steps / seconds, limit, "path-steps/s", worst);
}

void bench_curand(Machine& m) {
  std::vector<device::DeviceBuffer> keep;
  const unsigned blocks = 32768;
  const Operand out = resident(keep, std::vector<float>(blocks * kPeerThreads));
  const double seconds = median_seconds(m, [&] {
    device::launch(m.stream, {dim3(blocks), dim3(kPeerThreads)}, curand_asian, 42ull, 252,
                   static_cast<float>(-0.02 / 252), static_cast<float>(0.2 / std::sqrt(252.0)),
                   static_cast<float*>(out.data));
  });
  report("asian_curand_peer", static_cast<double>(blocks) * kPeerThreads * 252 / seconds, 1.39e12,
         "path-steps/s", 0);
}

}  // namespace
}  // namespace sluice::market

int main() {
  using namespace sluice;
  using namespace sluice::market;
  Machine m;
  compute::Compute cpu({});
  bench_black_scholes<double>(m, cpu, "black_scholes_double", 107e9);
  bench_black_scholes<float>(m, cpu, "black_scholes_float", 215e9);
  bench_binomial(m, cpu);
  bench_american(m, cpu, AmericanAccuracy::fast, "american_fast", 540e6);
  bench_american(m, cpu, AmericanAccuracy::standard, "american_standard", 43e6);
  bench_asian(m, cpu, false, 1.39e12);
  bench_asian(m, cpu, true, 2.09e12);
  bench_curand(m);
}
