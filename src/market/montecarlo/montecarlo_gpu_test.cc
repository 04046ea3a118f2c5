// Simulations on the GPU against the same paths on the CPU.
#include <gmock/gmock.h>

#include <cmath>

#include "market/montecarlo/asian.h"
#include "market/montecarlo/paths.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

class SimulationsOnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() { compute = compute::make_compute("gpu"); }
  static void TearDownTestSuite() { compute.reset(); }
  inline static std::unique_ptr<compute::Compute> compute;
};

TEST_F(SimulationsOnGpu, AsianPricesAgree) {
  for (const int fixings : {1, 3, 4, 13, 250})
    for (const bool antithetic : {false, true})
      for (const auto kind : {OptionKind::call, OptionKind::put}) {
        const AsianOption o{
            .kind = kind, .strike = 102, .rate = 0.04, .vol = 0.3, .fixings = fixings};
        const SimulationOptions s{
            .paths = 1 << 16, .seed = 3, .antithetic = antithetic, .control_variate = false};
        const auto cpu = asian(*compute, o, s, DevicePreference::cpu),
                   gpu = asian(*compute, o, s, DevicePreference::gpu);
        EXPECT_NEAR(gpu.price, cpu.price, 1e-5 * o.spot) << fixings << antithetic;
        EXPECT_NEAR(gpu.standard_error, cpu.standard_error, 1e-3 * cpu.standard_error);
        EXPECT_EQ(gpu.paths, cpu.paths);
        EXPECT_EQ(asian(*compute, o, s, DevicePreference::gpu).price, gpu.price);
      }
}

TEST_F(SimulationsOnGpu, AsianPricesAgreeWhenAllFixingsAreAtOneTime) {
  const AsianOption o{.strike = 102, .vol = 0.3, .fixings = 6, .first_fixing = 1, .span = 0};
  const SimulationOptions s{.paths = 1 << 16, .control_variate = false};
  const double cpu = asian(*compute, o, s, DevicePreference::cpu).price;
  EXPECT_NEAR(asian(*compute, o, s, DevicePreference::gpu).price, cpu, 1e-5 * o.spot);
  EXPECT_NEAR(cpu, asian_geometric(o), 0.2);  // the mean of equal prices is their price
}

struct NamedPayoff {
  const char* name;
  Payoff payoff;
};
std::ostream& operator<<(std::ostream& to, const NamedPayoff& one) { return to << one.name; }

class PayoffOnGpu : public SimulationsOnGpu, public testing::WithParamInterface<NamedPayoff> {};

TEST_P(PayoffOnGpu, PathsAgree) {
  PathModel model{.rate = 0.03, .assets = {{100, 0.01, 0.2}, {95, 0, 0.3}}, .steps = 7};
  model.correlation = {1, 0.4, 0.4, 1};
  PathPayoff p{.payoff = GetParam().payoff, .level = 85, .rebate = 2, .continuous = true};
  p.weights = {0.5, 0.5};
  const SimulationOptions s{.paths = 30000, .seed = 5};
  const auto cpu = simulate(*compute, model, p, s, DevicePreference::cpu);
  const auto gpu = simulate(*compute, model, p, s, DevicePreference::gpu);
  EXPECT_NEAR(gpu.price, cpu.price, 1e-9 * 100);
  EXPECT_EQ(simulate(*compute, model, p, s, DevicePreference::gpu).price, gpu.price);
}

INSTANTIATE_TEST_SUITE_P(Payoffs, PayoffOnGpu,
                         testing::Values(NamedPayoff{"European", Payoff::european},
                                         NamedPayoff{"AsianPrice", Payoff::asian_price},
                                         NamedPayoff{"AsianStrike", Payoff::asian_strike},
                                         NamedPayoff{"Barrier", Payoff::barrier},
                                         NamedPayoff{"LookbackFixed", Payoff::lookback_fixed},
                                         NamedPayoff{"LookbackFloating", Payoff::lookback_floating},
                                         NamedPayoff{"Basket", Payoff::basket},
                                         NamedPayoff{"BestOf", Payoff::best_of}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(SimulationsOnGpu, HestonPathsAgree) {
  PathModel model{.rate = 0.03, .stochastic_volatility = true, .steps = 50};
  const SimulationOptions s{.paths = 20000};
  EXPECT_NEAR(simulate(*compute, model, {}, s, DevicePreference::gpu).price,
              simulate(*compute, model, {}, s, DevicePreference::cpu).price, 1e-9 * 100);
}

}  // namespace
}  // namespace sluice::market
