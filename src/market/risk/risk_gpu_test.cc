// The risk operations on the GPU against the CPU.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/tail.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

class RiskOnGpu : public testing::Test {
 protected:
  std::vector<double> random_returns(std::size_t n, double missing) {
    std::student_t_distribution<double> t(5);
    std::uniform_real_distribution<double> u;
    std::vector<double> r(n);
    for (double& x : r) x = u(random) < missing ? std::nan("") : 0.0004 + 0.01 * t(random);
    return r;
  }
  std::unique_ptr<compute::Compute> compute = compute::make_compute("gpu");
  std::mt19937_64 random{std::random_device{}()};
};

void expect_close(double gpu, double cpu, double tolerance, const char* what) {
  if (std::isnan(cpu)) {
    EXPECT_TRUE(std::isnan(gpu)) << what;
    return;
  }
  if (gpu == cpu) return;  // infinities
  EXPECT_NEAR(gpu, cpu, tolerance * std::max(1.0, std::abs(cpu))) << what;
}

void expect_close(const RiskMetrics& gpu, const RiskMetrics& cpu) {
  EXPECT_EQ(gpu.count, cpu.count);
  expect_close(gpu.total_return, cpu.total_return, 1e-10, "total_return");
  expect_close(gpu.annual_return, cpu.annual_return, 1e-10, "annual_return");
  expect_close(gpu.mean, cpu.mean, 1e-12, "mean");
  expect_close(gpu.volatility, cpu.volatility, 1e-12, "volatility");
  expect_close(gpu.downside_deviation, cpu.downside_deviation, 1e-12, "downside_deviation");
  expect_close(gpu.sharpe, cpu.sharpe, 1e-11, "sharpe");
  expect_close(gpu.sortino, cpu.sortino, 1e-11, "sortino");
  expect_close(gpu.calmar, cpu.calmar, 1e-10, "calmar");
  expect_close(gpu.max_drawdown, cpu.max_drawdown, 1e-12, "max_drawdown");
  expect_close(gpu.skew, cpu.skew, 1e-10, "skew");
  expect_close(gpu.kurtosis, cpu.kurtosis, 1e-10, "kurtosis");
  expect_close(gpu.beta, cpu.beta, 1e-11, "beta");
  expect_close(gpu.alpha, cpu.alpha, 1e-10, "alpha");
  EXPECT_EQ(gpu.peak, cpu.peak);
  EXPECT_EQ(gpu.trough, cpu.trough);
  EXPECT_EQ(gpu.recovery, cpu.recovery);
}

TEST_F(RiskOnGpu, MetricsAgreeForEveryLengthAndRepeatBitForBit) {
  for (const std::size_t bars :
       {1u, 2u, 255u, 2048u, 2049u, 5402u, 10000u, 16384u, 16385u, 300001u})
    for (const double missing : {0.0, 0.1})
      for (const auto input : {RiskInput::returns, RiskInput::prices}) {
        SCOPED_TRACE(testing::Message() << bars << " bars, " << missing << " missing, prices "
                                        << (input == RiskInput::prices));
        const std::size_t series = bars > 100000 ? 3 : 17;
        auto values = random_returns(series * bars, missing);
        auto benchmark = random_returns(bars, missing);
        if (input == RiskInput::prices) {
          double p = 1;
          for (auto* v : {&values, &benchmark})
            for (double& x : *v) x = std::isnan(x) ? x : p = std::max(1e-3, p * (1 + x));
        }
        const RiskOptions options{.input = input, .risk_free = 1e-4, .required_return = 2e-4};
        std::vector<RiskMetrics> cpu(series), gpu(series), again(series);
        risk_metrics(*compute, values, bars, benchmark, cpu, options, DevicePreference::cpu);
        risk_metrics(*compute, values, bars, benchmark, gpu, options, DevicePreference::gpu);
        risk_metrics(*compute, values, bars, benchmark, again, options, DevicePreference::gpu);
        for (std::size_t i = 0; i < series; ++i) expect_close(gpu[i], cpu[i]);
        EXPECT_EQ(std::memcmp(gpu.data(), again.data(), series * sizeof(RiskMetrics)), 0);
        risk_metrics(*compute, values, bars, {}, cpu, options, DevicePreference::cpu);
        risk_metrics(*compute, values, bars, {}, gpu, options, DevicePreference::gpu);
        for (std::size_t i = 0; i < series; ++i) expect_close(gpu[i], cpu[i]);
      }
}

TEST_F(RiskOnGpu, TheTroughOfAFallingSeriesIsItsLastValidBar) {
  const std::size_t bars = 255, series = 400;
  auto values = random_returns(series * bars, 0.1);
  for (double& x : values) x = -std::abs(x);
  std::vector<RiskMetrics> cpu(series), gpu(series);
  risk_metrics(*compute, values, bars, {}, cpu, {}, DevicePreference::cpu);
  risk_metrics(*compute, values, bars, {}, gpu, {}, DevicePreference::gpu);
  for (std::size_t i = 0; i < series; ++i) {
    auto last = static_cast<std::int64_t>(bars) - 1;
    while (std::isnan(values[i * bars + static_cast<std::size_t>(last)])) --last;
    EXPECT_EQ(gpu[i].trough, last) << i;
    EXPECT_EQ(cpu[i].trough, last) << i;
  }
}

TEST_F(RiskOnGpu, TailsAgreeForMisleadingSamples) {
  for (const std::size_t bars : {1u, 20u, 1000u, 4096u, 4097u, 10000u, 200001u})
    for (const auto convention : {TailConvention::empyrical, TailConvention::quantlib})
      for (const auto method : {TailMethod::historical, TailMethod::parametric})
        for (const double cutoff : {0.001, 0.05, 0.9}) {
          SCOPED_TRACE(testing::Message() << bars << " bars, cutoff " << cutoff);
          auto r = random_returns(8 * bars, 0);
          std::sort(r.begin() + static_cast<long>(bars), r.begin() + static_cast<long>(2 * bars));
          std::fill_n(r.begin() + static_cast<long>(2 * bars), bars, -0.25);
          for (std::size_t t = 0; t < bars; ++t) {
            r[3 * bars + t] += t % 10 == 3 ? -1 : 0;
            if (t % 97 != 0) r[4 * bars + t] = std::nan("");
            r[5 * bars + t] = std::nan("");
            r[6 * bars + t] = t > bars / 2 && t < bars / 2 + bars / 15 ? -0.5 : 0.0;
          }
          std::vector<TailRisk> cpu(8), gpu(8), again(8);
          const TailOptions o{method, convention, cutoff};
          tail_risk(*compute, r, bars, cpu, o, DevicePreference::cpu);
          tail_risk(*compute, r, bars, gpu, o, DevicePreference::gpu);
          tail_risk(*compute, r, bars, again, o, DevicePreference::gpu);
          for (std::size_t i = 0; i < 8; ++i) {
            SCOPED_TRACE(i);
            EXPECT_EQ(gpu[i].count, cpu[i].count);
            expect_close(gpu[i].var, cpu[i].var, method == TailMethod::historical ? 0 : 1e-12,
                         "var");
            expect_close(gpu[i].cvar, cpu[i].cvar, 1e-12, "cvar");
          }
          EXPECT_EQ(std::memcmp(gpu.data(), again.data(), 8 * sizeof(TailRisk)), 0);
        }
}

TEST_F(RiskOnGpu, CovariancesAgreeForEveryShapeAndKind) {
  for (const std::size_t series : {1u, 31u, 32u, 33u, 100u})
    for (const std::size_t bars : {3u, 31u, 500u, 1261u})
      for (const double missing : {0.0, 0.2})
        for (const auto kind :
             {CovarianceKind::sample, CovarianceKind::ledoit_wolf, CovarianceKind::ewma}) {
          SCOPED_TRACE(testing::Message() << series << " x " << bars << ", kind "
                                          << static_cast<int>(kind) << ", missing " << missing);
          const auto r = random_returns(2 * series * bars, missing);
          std::vector<double> cpu(2 * series * series), gpu(cpu.size()), again(cpu.size());
          std::vector<double> share_cpu(2), share_gpu(2);
          const CovarianceOptions o{.kind = kind, .span = 60};
          covariance(*compute, r, series, bars, cpu, o, share_cpu, DevicePreference::cpu);
          covariance(*compute, r, series, bars, gpu, o, share_gpu, DevicePreference::gpu);
          covariance(*compute, r, series, bars, again, o, {}, DevicePreference::gpu);
          for (std::size_t i = 0; i < cpu.size(); ++i) {
            if (std::isnan(cpu[i]) || std::isinf(cpu[i])) {
              ASSERT_FALSE(std::isfinite(gpu[i]));
              continue;
            }
            ASSERT_NEAR(gpu[i], cpu[i], 1e-13) << i;
          }
          for (int i = 0; i < 2; ++i) EXPECT_NEAR(share_gpu[i], share_cpu[i], 1e-10);
          EXPECT_EQ(std::memcmp(gpu.data(), again.data(), gpu.size() * sizeof(double)), 0);
        }
}

}  // namespace
}  // namespace sluice::market
