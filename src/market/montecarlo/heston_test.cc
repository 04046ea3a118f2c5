#include "market/montecarlo/heston.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

// By QuantLib 1.44's AnalyticHestonEngine.
TEST(HestonPrice, PricesAgreeWithQuantLib) {
  struct Case {
    HestonOption option;
    double want;
  };
  const Case cases[] = {
      {{OptionKind::call, 100, 100, 1, 0.03, 0.01, {0.04, 1.5, 0.05, 0.5, -0.7}},
       8.594220723742065},
      {{OptionKind::call, 100, 120, 2, 0.05, 0, {0.09, 2, 0.06, 0.3, -0.3}}, 10.799988414982495},
      {{OptionKind::put, 100, 80, 0.2, 0, 0.02, {0.02, 0.5, 0.08, 1, -0.9}}, 0.18390210902531834},
      {{OptionKind::put, 100, 105, 10, 0.02, 0, {0.04, 0.3, 0.04, 0.9, 0.2}}, 9.088918204221658}};
  for (const auto& [option, want] : cases)
    EXPECT_NEAR(heston_price(option), want, 1e-8) << option.strike << ' ' << option.t;
}

TEST(HestonPrice, PricesApproachBlackScholesWithoutVolatilityOfVolatility) {
  compute::Compute compute{{.threads = 1}};
  double call = 0, put = 0;
  black_scholes<double>(compute, {100.0, 110.0, 2.0, 0.03, 0.01, 0.3}, {&call, 1}, {&put, 1});
  const HestonOption o{.strike = 110,
                       .t = 2,
                       .rate = 0.03,
                       .div_yield = 0.01,
                       .model = {.v0 = 0.09, .kappa = 1, .theta = 0.09, .sigma = 1e-3, .rho = 0}};
  EXPECT_NEAR(heston_price(o), call, 1e-5);
}

TEST(HestonPrice, PricesKeepTheirDigitsWhereVarianceHardlyVaries) {
  compute::Compute compute{{.threads = 1}};
  for (const double kappa : {1.0, 30.0, 1000.0})
    for (const double sigma : {1e-4, 1e-3})
      for (const double t : {0.1, 1.0, 10.0}) {
        double call = 0, put = 0;
        black_scholes<double>(compute, {100.0, 100.0, t, 0.0, 0.0, 0.2}, {&call, 1}, {&put, 1});
        HestonOption o{.t = t, .model = {0.04, kappa, 0.04, sigma, 0}};
        EXPECT_NEAR(heston_price(o), call, 10 * sigma * sigma + 1e-8)
            << kappa << ' ' << sigma << ' ' << t;
        o.model.rho = -0.7;
        EXPECT_NEAR(heston_price(o), call, 10 * sigma / kappa + 1e-8) << kappa << ' ' << t;
      }
}

TEST(HestonPrice, PricesWithoutVarianceAreTheDiscountedIntrinsicValue) {
  HestonOption o{.t = 1e-6, .model = {.v0 = 0, .kappa = 0, .theta = 0}};
  EXPECT_EQ(heston_price(o), 0);
  o.strike = 90;
  EXPECT_NEAR(heston_price(o), 10, 1e-12);
}

TEST(HestonPrice, ASlowlyDecayingIntegralIsRefusedAndEstimatedAsExpensive) {
  const HestonOption o{.t = 1e-6, .model = {.v0 = 1e-9, .theta = 1e-9, .sigma = 1e-4}};
  EXPECT_THROW(heston_price(o), Error);
  EXPECT_EQ(heston_panels(o), 200000);
  EXPECT_LT(heston_panels({}), 500);
  EXPECT_GT(heston_panels({.t = 1e-4}), 500);
}

TEST(HestonPrice, ParametersOutOfRangeAreRefused) {
  EXPECT_THROW(heston_price({.model = {.rho = -1.5}}), Error);
  EXPECT_THROW(heston_price({.t = 0}), Error);
}

}  // namespace
}  // namespace sluice::market
