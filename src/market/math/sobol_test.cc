#include "market/math/sobol.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "market/math/normal.h"
#include "market/montecarlo/asian.h"
#include "market/montecarlo/paths.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

std::uint32_t at(int dimension, std::uint32_t number) {
  return sobol(sobol_directions().at[dimension], number);
}

// Points 5 and 1000 of SciPy's sequence, which counts in Gray code.
TEST(Sobol, PointsAreThosePublished) {
  const int dimensions[] = {0, 1, 2, 20, 100, 255};
  const std::uint32_t five[] = {3758096384, 3758096384, 536870912,
                                2684354560, 536870912,  3758096384};
  const std::uint32_t thousand[] = {943718400,  415236096,  2227175424,
                                    2243952640, 3300917248, 1069547520};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(at(dimensions[i], 5 ^ 5 >> 1), five[i]) << dimensions[i];
    EXPECT_EQ(at(dimensions[i], 1000 ^ 1000 >> 1), thousand[i]) << dimensions[i];
  }
}

TEST(Sobol, EveryDimensionIsFilledEvenly) {
  for (int d = 0; d < kSobolDimensions; ++d) {
    std::set<std::uint32_t> cells;
    for (std::uint32_t i = 0; i < 256; ++i) cells.insert(at(d, i) >> 24);
    EXPECT_EQ(cells.size(), 256u) << d;
  }
}

TEST(NormalQuantile, TheQuantileInvertsTheDistribution) {
  for (const double x : {-8.0, -5.0, -2.0, -0.3, 0.0, 1e-3, 0.7, 3.0, 6.0})
    EXPECT_NEAR(normal_quantile<fast::HostMath>(0.5 * std::erfc(-x / std::sqrt(2.0))), x,
                1e-12 + (x > 4 ? 1e-7 : 0))
        << x;
}

class QuasiPaths : public testing::Test {
 protected:
  compute::Compute compute{{.threads = 2}};
};

TEST_F(QuasiPaths, SobolPathsAreMuchMorePreciseThanRandomOnes) {
  const PathModel model{.rate = 0.04, .assets = {{100, 0, 0.25}}, .steps = 16};
  const PathPayoff payoff{.payoff = Payoff::asian_price};
  SimulationOptions s{.paths = 1 << 16, .antithetic = false, .control_variate = false};
  const auto random = simulate(compute, model, payoff, s);
  s.sobol = true;
  const auto quasi = simulate(compute, model, payoff, s);
  EXPECT_LT(quasi.standard_error * 5, random.standard_error);
  EXPECT_NEAR(quasi.price, random.price, 4 * random.standard_error);
  const AsianOption same{
      .rate = 0.04, .vol = 0.25, .fixings = 16, .first_fixing = 1.0 / 16, .span = 15.0 / 16};
  const auto exact = asian(compute, same, {.paths = 1 << 18});
  EXPECT_NEAR(quasi.price, exact.price, 4 * (quasi.standard_error + exact.standard_error) + 1e-4);
}

TEST_F(QuasiPaths, SobolPathsPriceSeveralCorrelatedAssets) {
  PathModel model{.assets = {{100, 0, 0.2}, {95, 0, 0.3}}};
  model.correlation = {1, 0.4, 0.4, 1};
  double call = 0, put = 0;
  black_scholes<double>(compute, {95.0, 100.0, 1.0, 0.0, 0.0, std::sqrt(0.13 - 0.048)}, {&call, 1},
                        {&put, 1});
  const auto e = simulate(compute, model, {.payoff = Payoff::best_of, .strike = 0},
                          {.paths = 1 << 16, .sobol = true});
  EXPECT_NEAR(e.price, 100 + call, 5 * e.standard_error + 1e-6);
  EXPECT_LT(e.standard_error, 0.02);
}

TEST_F(QuasiPaths, SobolPathsHaveAtMost256Dimensions) {
  EXPECT_THROW(simulate(compute, {.steps = 257}, {}, {.paths = 1000, .sobol = true}), Error);
}

}  // namespace
}  // namespace sluice::market
