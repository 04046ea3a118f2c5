// What the risk kernels reach on this GPU: a line of JSON for each, with the physical limit
// of an H200 and the share of it, from arrays that lie on the device, by CUDA events,
// median of 25 runs. Every result is compared with the CPU's before it counts.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "compute/lane.h"
#include "device/check.h"
#include "device/device_buffer.h"
#include "market/risk/covariance.h"
#include "market/risk/covariance_call.h"
#include "market/risk/metrics.h"
#include "market/risk/metrics_call.h"
#include "market/risk/normal.h"
#include "market/risk/tail.h"
#include "market/risk/tail_call.h"
#include "memory/cuda.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Operand;
using compute::Side;
using device::check;

constexpr int kRuns = 25;
constexpr double kBytesPerSecond = 4.3e12, kFlopPerSecond = 67e12;

struct Machine {
  device::DeviceId id{0};
  device::DeviceScope scope{id};
  device::Stream stream{id};
  std::unique_ptr<memory::Allocator> memory = memory::make_cuda_allocator(0);
};

double median_seconds(Machine& m, const compute::Operation& operation, const Call& call) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> ms;
  for (int i = 0; i < kRuns + 3; ++i) {
    compute::Lane lane(m.stream, *m.memory);
    check(cudaEventRecord(begin, m.stream.get()));
    operation.gpu(call, lane);
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

// 64 MiB of different returns, again and again: drawing them all takes longer than the rest.
std::vector<double> random_returns(std::size_t n) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0.0004, 0.01);
  std::vector<double> r(n);
  const std::size_t drawn = std::min<std::size_t>(n, (8 << 20) + 1);
  for (std::size_t i = 0; i < drawn; ++i) r[i] = normal(random);
  for (std::size_t i = drawn; i < n; ++i) r[i] = r[i - drawn];
  return r;
}

class Case {
 public:
  Case(const std::vector<double>& in, std::size_t items, std::size_t out_bytes)
      : in_(device::device_buffer(in.size() * sizeof(double))),
        out_(device::device_buffer(out_bytes)),
        more_(device::device_buffer(items * sizeof(double))) {
    check(cudaMemcpy(in_.get(), in.data(), in.size() * sizeof(double), cudaMemcpyHostToDevice));
    call.items = items;
    call.in = {{in_.get(), in.size() / items * sizeof(double), 0, Side::device}};
    call.out = {{out_.get(), out_bytes / items, 0, Side::device},
                {more_.get(), sizeof(double), 0, Side::device}};
  }
  template <class T>
  std::vector<T> results(std::size_t n) const {
    std::vector<T> got(n);
    check(cudaMemcpy(got.data(), out_.get(), n * sizeof(T), cudaMemcpyDeviceToHost));
    return got;
  }
  Call call;

 private:
  device::DeviceBuffer in_, out_, more_;
};

void bench_metrics(Machine& m, compute::Compute& cpu, const char* name, std::size_t series,
                   std::size_t bars, bool recovery) {
  const auto returns = random_returns(series * bars);
  const RiskParameters p{{.find_recovery = recovery}, bars, false};
  Case c(returns, series, series * sizeof(RiskMetrics));
  c.call.parameters = &p;
  const double seconds = median_seconds(m, risk_operation(), c.call);
  const std::size_t checked = std::min<std::size_t>(series, 100);
  std::vector<RiskMetrics> want(checked);
  risk_metrics(cpu, {returns.data(), checked * bars}, bars, {}, want, p.options);
  const auto got = c.results<RiskMetrics>(checked);
  double worst = 0;
  for (std::size_t i = 0; i < checked; ++i)
    worst = std::max({worst, std::fabs(got[i].sharpe - want[i].sharpe),
                      std::fabs(got[i].max_drawdown - want[i].max_drawdown)});
  report(name, static_cast<double>(returns.size()) / seconds, kBytesPerSecond / 8, "bars/s", worst);
}

void bench_tail(Machine& m, compute::Compute& cpu, const char* name, std::size_t series,
                std::size_t bars) {
  const auto returns = random_returns(series * bars);
  const TailParameters p{{}, bars, normal_quantile(0.05), 0};
  Case c(returns, series, series * sizeof(TailRisk));
  c.call.parameters = &p;
  const double seconds = median_seconds(m, tail_operation(), c.call);
  const std::size_t checked = std::min<std::size_t>(series, 100);
  std::vector<TailRisk> want(checked);
  tail_risk(cpu, {returns.data(), checked * bars}, bars, want);
  const auto got = c.results<TailRisk>(checked);
  double worst = 0;
  for (std::size_t i = 0; i < checked; ++i)
    worst = std::max(
        {worst, std::fabs(got[i].var - want[i].var), std::fabs(got[i].cvar - want[i].cvar)});
  report(name, static_cast<double>(returns.size()) / seconds, kBytesPerSecond / 8, "bars/s", worst);
}

void bench_covariance(Machine& m, compute::Compute& cpu, const char* name, std::size_t series,
                      std::size_t bars) {
  const auto returns = random_returns(series * bars);
  const CovarianceParameters p{{}, series, bars};
  Case c(returns, 1, series * series * sizeof(double));
  c.call.parameters = &p;
  const double seconds = median_seconds(m, covariance_operation(), c.call);
  std::vector<double> want(series * series);
  covariance(cpu, returns, series, bars, want);
  const auto got = c.results<double>(want.size());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::fabs(got[i] - want[i]));
  const auto n = static_cast<double>(series);
  report(name, n * (n + 1) * static_cast<double>(bars) / seconds, kFlopPerSecond, "FLOP/s", worst);
}

}  // namespace
}  // namespace sluice::market

int main() {
  using namespace sluice;
  using namespace sluice::market;
  Machine m;
  compute::Compute cpu({});
  bench_metrics(m, cpu, "risk_metrics_10000x10000", 10000, 10000, false);
  bench_metrics(m, cpu, "risk_metrics_with_recovery_10000x10000", 10000, 10000, true);
  bench_metrics(m, cpu, "risk_metrics_1x100M", 1, 100'000'000, false);
  bench_tail(m, cpu, "var_cvar_10000x10000", 10000, 10000);
  bench_tail(m, cpu, "var_cvar_1000x100000", 1000, 100000);
  bench_covariance(m, cpu, "covariance_500x1260", 500, 1260);
  bench_covariance(m, cpu, "covariance_4000x2520", 4000, 2520);
}
