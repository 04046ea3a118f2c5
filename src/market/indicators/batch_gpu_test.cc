// The GPU gives what the CPU gives, within 1e-12 of the values' size, and the same bits
// every time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compute/compute.h"
#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/indicators/market_for_tests.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

template <class T>
std::vector<std::vector<T>> run_on(compute::Compute& compute, const Indicator& one,
                                   const Plan& plan, const Market& market,
                                   DevicePreference device) {
  std::vector<std::vector<T>> in, out(one.outputs.size());
  for (const auto& array : market.inputs(one)) in.emplace_back(array.begin(), array.end());
  for (auto& array : out) array.assign(in[0].size(), static_cast<T>(-7));
  const auto outcome = run(compute, plan, Arrays<const T>(in.begin(), in.end()),
                           Arrays<T>(out.begin(), out.end()), market.bars, device);
  if (device == DevicePreference::gpu) {
    EXPECT_EQ(outcome.items_on_cpu, 0u) << outcome.fallback;
  }
  return out;
}

// Relative to the values, or to 1 where they are differences of prices or near zero.
template <class T>
void expect_near(const std::vector<std::vector<T>>& made, const std::vector<std::vector<T>>& wanted,
                 double tolerance) {
  for (std::size_t k = 0; k < made.size(); ++k)
    for (std::size_t i = 0; i < made[k].size(); ++i) {
      const double a = made[k][i], b = wanted[k][i];
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_LE(std::fabs(a - b), tolerance * std::max({std::fabs(a), std::fabs(b), 100.0}))
          << "output " << k << " at " << i << ": " << a << " for " << b;
    }
}

class BatchOnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() { compute = compute::make_compute("gpu"); }
  static void TearDownTestSuite() { compute.reset(); }
  inline static std::unique_ptr<compute::Compute> compute;

  void compare(const Indicator& one, const Plan& plan, const Market& market) {
    SCOPED_TRACE(testing::Message() << one.name << ' ' << market.series << 'x' << market.bars);
    const auto gpu = run_on<double>(*compute, one, plan, market, DevicePreference::gpu);
    expect_near(gpu, run_on<double>(*compute, one, plan, market, DevicePreference::cpu), 1e-12);
    const auto again = run_on<double>(*compute, one, plan, market, DevicePreference::gpu);
    for (std::size_t k = 0; k < gpu.size(); ++k)
      EXPECT_EQ(std::memcmp(gpu[k].data(), again[k].data(), gpu[k].size() * sizeof(double)), 0);
  }
};

class IndicatorOnGpu : public BatchOnGpu, public testing::WithParamInterface<std::string> {
 protected:
  static void SetUpTestSuite() {
    BatchOnGpu::SetUpTestSuite();
    using Size = std::pair<std::size_t, std::size_t>;
    for (const auto& [series, bars] :
         {Size{1, 1}, Size{1, 17}, Size{3, 64}, Size{33, 301}, Size{100, 1000}, Size{5, 40001}})
      markets.emplace_back(series, bars);
  }
  static void TearDownTestSuite() {
    markets.clear();
    BatchOnGpu::TearDownTestSuite();
  }
  inline static std::vector<Market> markets;

  const Indicator& one = indicator(GetParam());
};

TEST_P(IndicatorOnGpu, ResultsAgreeForEverySize) {
  for (const Market& market : markets) compare(one, one.plan(), market);
}

class PeriodsOnGpu : public BatchOnGpu, public testing::WithParamInterface<const char*> {};

TEST_P(PeriodsOnGpu, ResultsAgreeUpToPeriodsInGlobalMemory) {
  const Market market(7, 9000);
  const Indicator& one = indicator(GetParam());
  for (const double period : {2.0, 3.0, 31.0, 300.0, 1000.0, 4000.0})
    compare(one, one.plan({{"timeperiod", period}}), market);
}

INSTANTIATE_TEST_SUITE_P(Indicators, PeriodsOnGpu,
                         testing::Values("SMA", "WMA", "BBANDS", "MAX", "CCI", "WILLR", "MOM",
                                         "RSI"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(IndicatorOnGpu, LeadingNansAreSkippedPerSeries) {
  Market market(40, 300);
  for (std::size_t s = 0; s < market.series; ++s)
    for (std::size_t t = 0; t < std::min<std::size_t>(s * 8, 300); ++t)
      market.column[3][s * 300 + t] = std::nan("");
  compare(one, one.plan(), market);
}

TEST_P(IndicatorOnGpu, FloatResultsAgree) {
  const Market market(37, 777);
  expect_near(run_on<float>(*compute, one, one.plan(), market, DevicePreference::gpu),
              run_on<float>(*compute, one, one.plan(), market, DevicePreference::cpu), 1e-6);
}

std::vector<std::string> indicator_names() {
  std::vector<std::string> names;
  for (const Indicator& one : indicators()) names.emplace_back(one.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, IndicatorOnGpu, testing::ValuesIn(indicator_names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace sluice::market
