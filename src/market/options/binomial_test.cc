#include "market/options/binomial.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

struct Option {
  double spot, strike, t, rate, yield, vol;
};

// Every node of the tree, nothing left out.
double whole_tree(const Option& o, bool call, bool american, int n) {
  const double dt = o.t / n, up = o.vol * std::sqrt(dt), u = std::exp(up), d = 1 / u;
  const double p = (std::exp((o.rate - o.yield) * dt) - d) / (u - d), df = std::exp(-o.rate * dt);
  const auto pays = [&](int m) {
    const double s = o.spot * std::exp(m * up);
    return std::max(call ? s - o.strike : o.strike - s, 0.0);
  };
  std::vector<double> v;
  for (int j = 0; j <= n; ++j) v.push_back(pays(2 * j - n));
  for (int i = n - 1; i >= 0; --i)
    for (int j = 0; j <= i; ++j) {
      const auto at = static_cast<std::size_t>(j);
      v[at] = df * (p * v[at + 1] + (1 - p) * v[at]);
      if (american) v[at] = std::max(v[at], pays(2 * j - i));
    }
  return v[0];
}

class Binomial : public testing::Test {
 protected:
  compute::Compute compute{{.threads = 2}};

  double price(const Option& o, bool call, bool american, int steps) {
    double out = -1;
    binomial(compute, {o.spot, o.strike, o.t, o.rate, o.yield, o.vol},
             {.kind = call ? OptionKind::call : OptionKind::put,
              .exercise = american ? Exercise::american : Exercise::european,
              .steps = steps},
             {&out, 1});
    return out;
  }
  void expect_whole_tree(const Option& o, int steps) {
    for (const bool call : {false, true})
      for (const bool american : {false, true})
        ASSERT_NEAR(price(o, call, american, steps), whole_tree(o, call, american, steps),
                    1e-12 * (o.spot + o.strike))
            << "S " << o.spot << " K " << o.strike << " t " << o.t << " r " << o.rate << " q "
            << o.yield << " vol " << o.vol << (call ? " call" : " put") << american << ' ' << steps;
  }
};

TEST_F(Binomial, SkippedNodesDoNotChangeThePrice) {
  std::mt19937_64 random(5);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i)
    expect_whole_tree({draw(50, 150), draw(50, 150), draw(0.05, 3), draw(-0.02, 0.15),
                       draw(-0.02, 0.15), draw(0.15, 0.8)},
                      40 + i % 100);
}

TEST_F(Binomial, PricesAreRightAtZeroRatesAndFarFromTheMoney) {
  for (const double rate : {0.0, 0.05, -0.01})
    for (const double yield : {0.0, 0.05, 0.12, -0.01})
      for (const double spot : {20.0, 70.0, 99.0, 100.0, 130.0, 400.0})
        for (const int steps : {1, 2, 3, 64, 101})
          expect_whole_tree({spot, 100, 1, rate, yield, 0.3}, steps);
}

TEST_F(Binomial, EuropeanPricesApproachBlackScholes) {
  double call = 0, put = 0;
  black_scholes<double>(compute, {100.0, 105.0, 0.7, 0.04, 0.01, 0.3}, {&call, 1}, {&put, 1});
  const Option o{100, 105, 0.7, 0.04, 0.01, 0.3};
  EXPECT_NEAR(price(o, true, false, 4096), call, 3e-3);
  EXPECT_NEAR(price(o, false, false, 4096), put, 3e-3);
}

TEST_F(Binomial, ATreeThatCannotBeBuiltGivesNan) {
  EXPECT_TRUE(std::isnan(price({100, 100, 1, 0.5, 0, 0.001}, false, true, 10)));
  EXPECT_TRUE(std::isnan(price({-1, 100, 1, 0.05, 0, 0.2}, false, true, 10)));
  EXPECT_TRUE(std::isnan(price({100, 100, 0, 0.05, 0, 0.2}, false, true, 10)));
  EXPECT_TRUE(std::isnan(price({100, 100, 1, 0.05, 0, std::nan("")}, false, true, 10)));
}

TEST_F(Binomial, StepsOutOfRangeAreRefused) {
  EXPECT_THROW(price({100, 100, 1, 0.05, 0, 0.2}, false, true, 0), Error);
  EXPECT_THROW(price({100, 100, 1, 0.05, 0, 0.2}, false, true, kMaxTreeSteps + 1), Error);
}

}  // namespace
}  // namespace sluice::market
