#include "market/montecarlo/paths.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "market/montecarlo/heston.h"
#include "market/options/black_scholes.h"
#include "market/options/reference_for_tests.h"

namespace sluice::market {
namespace {

class Paths : public testing::Test {
 protected:
  compute::Compute compute{{.threads = 2}};

  PathModel of_row(const ReferenceRow& row, int steps) {
    return {.rate = row.number("rate"),
            .assets = {{row.number("spot"), row.number("div_yield"), row.number("vol")}},
            .t = row.number("t_used"),
            .steps = steps};
  }
  void expect_near_row(const Estimate& e, const ReferenceRow& row, double bias = 0) {
    EXPECT_NEAR(e.price, row.number("expected"), row.number("tol") + 4 * e.standard_error + bias)
        << "row " << row.text("id") << " standard error " << e.standard_error;
  }
};

OptionKind kind(const ReferenceRow& row) { return row.call() ? OptionKind::call : OptionKind::put; }

TEST_F(Paths, EuropeanPricesAgreeWithBlackScholes) {
  double call = 0, put = 0;
  black_scholes<double>(compute, {100.0, 105.0, 1.0, 0.05, 0.02, 0.3}, {&call, 1}, {&put, 1});
  const PathModel model{.rate = 0.05, .assets = {{100, 0.02, 0.3}}, .steps = 3};
  const auto e = simulate(compute, model, {.strike = 105}, {.paths = 1 << 17});
  EXPECT_NEAR(e.price, call, 4 * e.standard_error);
  EXPECT_LT(e.standard_error, 0.05);
}

TEST_F(Paths, AntitheticPathsAndTheControlVariateEachReduceTheError) {
  const PathModel model{.rate = 0.05, .assets = {{100, 0.02, 0.3}}};
  const auto error = [&](bool antithetic, bool control) {
    return simulate(compute, model, {},
                    {.paths = 1 << 16, .antithetic = antithetic, .control_variate = control})
        .standard_error;
  };
  EXPECT_LT(error(true, false), 0.9 * error(false, false));
  EXPECT_LT(error(false, true), 0.6 * error(false, false));
}

TEST_F(Paths, ContinuouslyMonitoredBarriersMatchPublishedPrices) {
  int checked = 0;
  for (const auto& row : option_reference()) {
    if (row.text("product") != "barrier" || row.text("exercise") != "european") continue;
    const std::string type = row.text("barrier_type");
    const PathPayoff payoff{.payoff = Payoff::barrier,
                            .kind = kind(row),
                            .strike = row.number("strike"),
                            .barrier = type == "DownOut"  ? Barrier::down_and_out
                                       : type == "UpOut"  ? Barrier::up_and_out
                                       : type == "DownIn" ? Barrier::down_and_in
                                                          : Barrier::up_and_in,
                            .level = row.number("barrier"),
                            .rebate = row.number("rebate"),
                            .continuous = true};
    // The rebate of an "out" is paid at the hit, whose time is known to a step.
    const auto e = simulate(compute, of_row(row, 16), payoff, {.paths = 1 << 14});
    expect_near_row(e, row, 2e-3 * payoff.rebate);
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no " << option_reference_file();
  EXPECT_EQ(checked, 83);
}

TEST_F(Paths, ContinuouslyMonitoredLookbacksMatchPublishedPrices) {
  int checked = 0;
  for (const auto& row : option_reference()) {
    const bool fixed = row.text("product") == "lookback_fixed";
    if (!fixed && row.text("product") != "lookback_floating") continue;
    const PathPayoff payoff{.payoff = fixed ? Payoff::lookback_fixed : Payoff::lookback_floating,
                            .kind = kind(row),
                            .strike = row.number("strike"),
                            .continuous = true,
                            .extreme = row.number("min_max")};
    expect_near_row(simulate(compute, of_row(row, 2), payoff, {.paths = 1 << 16}), row);
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no " << option_reference_file();
  EXPECT_EQ(checked, 43);
}

TEST_F(Paths, AverageStrikesMatchPublishedPrices) {
  int checked = 0;
  for (const auto& row : option_reference()) {
    if (row.text("product") != "asian_discrete_strike" || row.text("method") != "levy_1997")
      continue;
    PathModel model = of_row(row, static_cast<int>(row.number("n_fixings")));
    model.first = row.number("first_fixing");
    const PathPayoff payoff{.payoff = Payoff::asian_strike, .kind = kind(row)};
    expect_near_row(simulate(compute, model, payoff, {.paths = 1 << 10}), row);
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no " << option_reference_file();
  EXPECT_EQ(checked, 30);
}

// Rows of the reference that no product here covers: American barriers and American
// best-of, partial lookbacks, double barriers, digitals, continuous averages, averages with
// a volatility that changes (haug_table_4_28), the geometric average strike, and formulas
// that approximate American options (Barone-Adesi and Whaley, Bjerksund and Stensland, Ju).
TEST_F(Paths, ADiscretelyMonitoredBarrierIsHitLessOften) {
  const PathModel model{.assets = {{100, 0, 0.3}}, .steps = 12};
  PathPayoff payoff{.payoff = Payoff::barrier, .strike = 90, .level = 85};
  const double seldom = simulate(compute, model, payoff, {.paths = 1 << 15}).price;
  payoff.continuous = true;
  EXPECT_GT(seldom, simulate(compute, model, payoff, {.paths = 1 << 15}).price + 0.1);
}

TEST_F(Paths, CorrelatedAssetsMoveAsOneWhenCorrelationIsAlmostOne) {
  PathModel model{.rate = 0.03, .assets = {{100, 0, 0.2}, {100, 0, 0.2}}};
  model.correlation = {1, 0.999999, 0.999999, 1};
  PathPayoff basket{.payoff = Payoff::basket};
  basket.weights = {0.5, 0.5};
  double call = 0, put = 0;
  black_scholes<double>(compute, {100.0, 100.0, 1.0, 0.03, 0.0, 0.2}, {&call, 1}, {&put, 1});
  const auto e = simulate(compute, model, basket, {.paths = 1 << 16});
  EXPECT_NEAR(e.price, call, 4 * e.standard_error + 1e-3);
}

// Stulz 1982: the better of two assets against strike 0 is worth one plus an exchange.
TEST_F(Paths, TheBestOfTwoIsOneAssetPlusTheExchangeOption) {
  PathModel model{.assets = {{100, 0, 0.2}, {95, 0, 0.3}}};
  model.correlation = {1, 0.4, 0.4, 1};
  const PathPayoff payoff{.payoff = Payoff::best_of, .strike = 0};
  const double vol = std::sqrt(0.04 + 0.09 - 2 * 0.4 * 0.06);
  double call = 0, put = 0;
  black_scholes<double>(compute, {95.0, 100.0, 1.0, 0.0, 0.0, vol}, {&call, 1}, {&put, 1});
  const auto e = simulate(compute, model, payoff, {.paths = 1 << 16});
  EXPECT_NEAR(e.price, 100 + call, 4 * e.standard_error);
}

TEST_F(Paths, HestonPathsGiveTheSemiAnalyticPrice) {
  PathModel model{.rate = 0.03, .assets = {{100, 0.01, 0}}, .stochastic_volatility = true};
  model.heston = {.v0 = 0.04, .kappa = 1.5, .theta = 0.05, .sigma = 0.5, .rho = -0.7};
  model.steps = 200;
  const auto e = simulate(compute, model, {}, {.paths = 1 << 14});
  const double want = heston_price({.rate = 0.03, .div_yield = 0.01, .model = model.heston});
  EXPECT_NEAR(e.price, want, 4 * e.standard_error + 0.02);  // Euler's bias
}

TEST_F(Paths, AnyNumberOfThreadsGivesTheSameBits) {
  compute::Compute alone{{.threads = 1}};
  const PathModel model{.assets = {{100, 0, 0.2}}, .steps = 5};
  const PathPayoff payoff{.payoff = Payoff::asian_strike};
  EXPECT_EQ(simulate(alone, model, payoff, {.paths = 50000}).price,
            simulate(compute, model, payoff, {.paths = 50000}).price);
}

// 2^36 paths are 2^32 points of each shift; as 32 bits that was zero, and a division by zero.
TEST_F(Paths, MorePathsThanSobolHasPointsAreRefused) {
  for (const std::uint64_t paths : {std::uint64_t{1} << 37, std::uint64_t{1} << 36}) {
    try {
      simulate(compute, {}, {}, {.paths = paths, .antithetic = false, .sobol = true});
      ADD_FAILURE() << "answered " << paths;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("34359738368 at most"));
    }
  }
}

TEST_F(Paths, InvalidModelsAreRefused) {
  PathModel model{.assets = {{100, 0, 0.2}, {100, 0, 0.2}}};
  model.correlation = {1, 2, 2, 1};
  EXPECT_THROW(simulate(compute, model, {}), Error);
  for (const std::vector<double>& wrong :
       {std::vector<double>{1, 0}, {2, 0, 0, 2}, {1, 0.5, 0.4, 1}, {1, NAN, NAN, 1}}) {
    model.correlation = wrong;
    EXPECT_THROW(simulate(compute, model, {}), Error) << testing::PrintToString(wrong);
  }
  PathPayoff basket{.payoff = Payoff::basket};
  basket.weights = {NAN, 1};
  EXPECT_THROW(simulate(compute, {.assets = {{}, {}}}, basket), Error);
  EXPECT_THROW(simulate(compute, {.assets = {}}, {}), Error);
  EXPECT_THROW(simulate(compute, {.steps = 0}, {}), Error);
  EXPECT_THROW(simulate(compute, {.first = 0.25}, {}), Error);
  PathModel heston{.stochastic_volatility = true, .steps = 9};
  heston.heston.kappa = 10;
  EXPECT_THROW(simulate(compute, heston, {}), Error);
}

}  // namespace
}  // namespace sluice::market
