// Each operation on the GPU against the same on the CPU: random options, sizes that fill no
// block, and the same bits twice.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "market/options/american.h"
#include "market/options/binomial.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

struct Columns {
  std::vector<double> spot, strike, t, rate, div_yield, vol;

  explicit Columns(std::size_t n, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    const auto fill = [&](std::vector<double>& column, double low, double high) {
      std::uniform_real_distribution<double> draw(low, high);
      for (std::size_t i = 0; i < n; ++i) column.push_back(draw(random));
    };
    fill(spot, 50, 150);
    fill(strike, 50, 150);
    fill(t, 0.05, 3);
    fill(rate, 0.001, 0.12);
    fill(div_yield, 0, 0.1);
    fill(vol, 0.15, 0.8);
  }
  OptionColumns<double> columns() const { return {spot, strike, t, rate, div_yield, vol}; }
  double scale(std::size_t i) const { return spot[i] + strike[i]; }
};

using Prices = std::vector<double>;

bool same_bits(const Prices& a, const Prices& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

class OptionsOnGpu : public testing::Test {
 protected:
  std::unique_ptr<compute::Compute> compute = compute::make_compute("gpu");

  // `run(out, where)` fills out; both devices, and the GPU twice.
  template <class Run>
  void compare(const Columns& c, double tolerance, Run run) {
    const std::size_t n = c.spot.size();
    Prices cpu(n), gpu(n, -1), again(n, -2);
    run(cpu, DevicePreference::cpu);
    const auto outcome = run(gpu, DevicePreference::gpu);
    run(again, DevicePreference::gpu);
    ASSERT_EQ(outcome.items_on_gpu, n) << outcome.fallback;
    EXPECT_TRUE(same_bits(gpu, again));
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_NEAR(gpu[i], cpu[i], tolerance * c.scale(i)) << i << " of " << n;
  }
};

TEST_F(OptionsOnGpu, BlackScholesPricesAgreeWithTheCpu) {
  for (const std::size_t n : {1u, 255u, 513u, 100003u}) {
    const Columns c(n);
    Prices other(n);
    compare(c, 2e-15, [&](Prices& out, DevicePreference device) {
      return black_scholes<double>(*compute, c.columns(), out, other, device);
    });
    compare(c, 2e-15, [&](Prices& out, DevicePreference device) {
      return black_scholes<double>(*compute, c.columns(), other, out, device);
    });
  }
}

TEST_F(OptionsOnGpu, BlackScholesEdgeCasesAgreeWithTheCpu) {
  const double nan = NAN, inf = INFINITY;
  const std::vector<std::array<double, 6>> edges{
      {110, 100, 0, 0.05, 0, 0.2},    {100, 100, 1, 0.05, 0, 0},
      {0, 100, 1, 0.05, 0, 0.2},      {100, 0, 1, 0.05, 0, 0.2},
      {0, 0, 1, 0.05, 0, 0.2},        {1e-200, 100, 1, 0.05, 0, 9},
      {100, 100, -1, 0.05, 0, 0.2},   {100, 100, 1, 0.05, 0, nan},
      {100, 100, nan, 0.05, 0, 0.2},  {-1, 100, 1, 0.05, 0, 0.2},
      {nan, 100, 1, 0.05, 0, 0.2},    {100, nan, 1, 0.05, 0, 0.2},
      {100, 100, inf, 0.05, 0, 0.2},  {100, 100, inf, -0.05, 0.05, 0.2},
      {100, 100, inf, 0, 0, 0},       {inf, 100, 1, 0.05, 0, 0.2},
      {100, inf, 1, 0.05, 0, 0.2},    {100, 100, 1, 0.05, 0, inf},
      {100, 100, 1, nan, 0, 0.2},     {100, 100, 1, 0.05, -nan, 0.2},
      {100, 100, 1, inf, 0, 0.2},     {100, 100, 1, 0.05, -inf, 0.2},
      {100, 100, -nan, 0.05, 0, 0.2}, {100, 100, 1, 0.05, 0, -nan}};
  const std::size_t n = edges.size(), finite = 6;
  std::vector<double> in[6], cpu(n), gpu(n), put_cpu(n), put_gpu(n);
  for (const auto& edge : edges)
    for (std::size_t c = 0; c < 6; ++c) in[c].push_back(edge[c]);
  const OptionColumns<double> columns{in[0], in[1], in[2], in[3], in[4], in[5]};
  black_scholes<double>(*compute, columns, cpu, put_cpu, DevicePreference::cpu);
  black_scholes<double>(*compute, columns, gpu, put_gpu, DevicePreference::gpu);
  for (std::size_t i = 0; i < n; ++i) {
    if (i < finite) {
      EXPECT_NEAR(gpu[i], cpu[i], 1e-12) << i;
      EXPECT_NEAR(put_gpu[i], put_cpu[i], 1e-12) << i;
    } else {
      EXPECT_TRUE(std::isnan(gpu[i]) && std::isnan(cpu[i])) << i << ' ' << gpu[i] << ' ' << cpu[i];
      EXPECT_TRUE(std::isnan(put_gpu[i]) && std::isnan(put_cpu[i])) << i;
    }
  }
  EXPECT_NEAR(put_cpu[2], 100 * std::exp(-0.05), 1e-12);
}

TEST_F(OptionsOnGpu, GreeksAgreeWithTheCpu) {
  const Columns c(3001);
  for (const auto kind : {OptionKind::call, OptionKind::put}) {
    const auto cpu = black_scholes_greeks(*compute, c.columns(), kind, 3001, DevicePreference::cpu);
    const auto gpu = black_scholes_greeks(*compute, c.columns(), kind, 3001, DevicePreference::gpu);
    for (std::size_t g = 0; g < kGreekCount; ++g)
      for (std::size_t i = 0; i < 3001; ++i) {
        const double want = cpu[static_cast<Greek>(g)][i];
        ASSERT_NEAR(gpu[static_cast<Greek>(g)][i], want, 1e-9 * std::max(1.0, std::fabs(want)))
            << name(static_cast<Greek>(g)) << ' ' << i;
      }
  }
}

TEST_F(OptionsOnGpu, GreeksOfACertainOutcomeAgreeWithTheCpu) {
  const std::vector<double> spot{110, 90, 110, 90, 0, 100}, strike{100, 100, 100, 100, 100, 0};
  const std::vector<double> t{0, 0, 1, 1, 1, 1}, vol{0.2, 0.2, 0, 0, 0.2, 0.2};
  const OptionColumns<double> columns{spot, strike, t, 0.05, 0.02, vol};
  for (const auto kind : {OptionKind::call, OptionKind::put}) {
    const auto cpu =
        black_scholes_greeks(*compute, columns, kind, spot.size(), DevicePreference::cpu);
    const auto gpu =
        black_scholes_greeks(*compute, columns, kind, spot.size(), DevicePreference::gpu);
    for (std::size_t g = 0; g < kGreekCount; ++g)
      for (std::size_t i = 0; i < spot.size(); ++i) {
        const double want = cpu[static_cast<Greek>(g)][i], got = gpu[static_cast<Greek>(g)][i];
        EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) < 1e-11)
            << name(static_cast<Greek>(g)) << ' ' << i << ": " << got << ' ' << want;
      }
  }
}

TEST_F(OptionsOnGpu, ImpliedVolatilitiesAgreeWithTheCpu) {
  const Columns c(2049);
  Prices call(2049), put(2049), vol(2049);
  std::vector<ImpliedReason> reasons(2049);
  black_scholes<double>(*compute, c.columns(), call, put, DevicePreference::cpu);
  const auto greeks =
      black_scholes_greeks(*compute, c.columns(), OptionKind::put, 2049, DevicePreference::cpu);
  implied_volatility(*compute, put, c.columns(), OptionKind::put, vol, reasons,
                     DevicePreference::gpu);
  for (std::size_t i = 0; i < 2049; ++i) {
    if (4e-16 * c.scale(i) / greeks[Greek::vega][i] > 1e-11) continue;  // the price does not tell
    ASSERT_EQ(reasons[i], ImpliedReason::found) << i;
    ASSERT_NEAR(vol[i], c.vol[i], 1e-10) << i;
  }
}

struct Trees {
  int steps;
  std::size_t options;
};

// Steps for which strips are narrow, broad and wider than registers hold.
TEST_F(OptionsOnGpu, BinomialPricesAgreeWithTheCpu) {
  for (const Trees& trees : {Trees{1, 33}, {2, 5}, {77, 501}, {1024, 301}, {3000, 21}})
    for (const auto kind : {OptionKind::call, OptionKind::put})
      for (const auto exercise : {Exercise::american, Exercise::european}) {
        const Columns c(trees.options, static_cast<unsigned>(trees.steps));
        compare(c, 1e-12, [&](Prices& out, DevicePreference device) {
          return binomial(*compute, c.columns(),
                          {.kind = kind, .exercise = exercise, .steps = trees.steps}, out, device);
        });
      }
}

TEST_F(OptionsOnGpu, AmericanPricesAgreeWithTheCpu) {
  for (const auto accuracy : {AmericanAccuracy::fast, AmericanAccuracy::standard})
    for (const auto kind : {OptionKind::call, OptionKind::put}) {
      const Columns c(777);
      compare(c, 1e-11, [&](Prices& out, DevicePreference device) {
        return american(*compute, c.columns(), kind, out, accuracy, device);
      });
    }
}

}  // namespace
}  // namespace sluice::market
