#include "market/options/black_scholes.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "base/error.h"
#include "market/options/reference_for_tests.h"

namespace sluice::market {
namespace {

using compute::DevicePreference;

struct Batch {
  std::vector<double> spot, strike, t, rate, div_yield, vol;

  explicit Batch(std::size_t n, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    const auto fill = [&](std::vector<double>& column, double low, double high) {
      std::uniform_real_distribution<double> draw(low, high);
      for (std::size_t i = 0; i < n; ++i) column.push_back(draw(random));
    };
    fill(spot, 10, 200);
    fill(strike, 10, 200);
    fill(t, 0.01, 5);
    fill(rate, -0.02, 0.1);
    fill(div_yield, 0, 0.08);
    fill(vol, 0.02, 1);
  }
  OptionColumns<double> columns() const { return {spot, strike, t, rate, div_yield, vol}; }
};

struct LongPair {
  long double call, put;
};

long double below(long double x) { return 0.5L * erfcl(-x * sqrtl(0.5L)); }

LongPair exactly(long double s, long double k, long double t, long double r, long double q,
                 long double v) {
  const long double sd = v * sqrtl(t), d1 = (logl(s / k) + (r - q) * t) / sd + sd / 2;
  const long double ds = s * expl(-q * t), dk = k * expl(-r * t), d2 = d1 - sd;
  return {ds * below(d1) - dk * below(d2), dk * below(-d2) - ds * below(-d1)};
}

class BlackScholes : public testing::Test {
 protected:
  compute::Compute compute{{.threads = 2}};

  std::pair<double, double> one(double s, double k, double t, double r, double q, double v) {
    double call = -1, put = -1;
    black_scholes<double>(compute, {s, k, t, r, q, v}, {&call, 1}, {&put, 1});
    return {call, put};
  }
  std::map<std::string, double> greeks(OptionKind kind, double s, double k, double t, double r,
                                       double q, double v) {
    const auto all = black_scholes_greeks<double>(compute, {s, k, t, r, q, v}, kind, 1);
    std::map<std::string, double> named;
    for (std::size_t g = 0; g < kGreekCount; ++g)
      named[std::string(name(static_cast<Greek>(g)))] = all[static_cast<Greek>(g)][0];
    return named;
  }
};

TEST_F(BlackScholes, DoublePricesAreWithin1e15OfTheScaleOfLongDouble) {
  const Batch b(10007);
  std::vector<double> call(b.spot.size()), put(b.spot.size());
  black_scholes<double>(compute, b.columns(), call, put);
  for (std::size_t i = 0; i < call.size(); ++i) {
    const auto want = exactly(b.spot[i], b.strike[i], b.t[i], b.rate[i], b.div_yield[i], b.vol[i]);
    const double scale = b.spot[i] + b.strike[i];
    ASSERT_NEAR(call[i], static_cast<double>(want.call), 1e-15 * scale) << i;
    ASSERT_NEAR(put[i], static_cast<double>(want.put), 1e-15 * scale) << i;
  }
}

TEST_F(BlackScholes, FloatPricesAreWithin3e7OfTheScale) {
  const Batch b(4099);
  std::vector<float> f[6], call(4099), put(4099);
  const std::vector<double>* columns[] = {&b.spot, &b.strike, &b.t, &b.rate, &b.div_yield, &b.vol};
  for (int c = 0; c < 6; ++c) f[c].assign(columns[c]->begin(), columns[c]->end());
  black_scholes<float>(compute, {f[0], f[1], f[2], f[3], f[4], f[5]}, call, put);
  for (std::size_t i = 0; i < call.size(); ++i) {
    const auto want = exactly(f[0][i], f[1][i], f[2][i], f[3][i], f[4][i], f[5][i]);
    const double scale = b.spot[i] + b.strike[i];
    ASSERT_NEAR(call[i], static_cast<double>(want.call), 3e-7 * scale) << i;
    ASSERT_NEAR(put[i], static_cast<double>(want.put), 3e-7 * scale) << i;
  }
}

TEST_F(BlackScholes, AScalarColumnEqualsAConstantArray) {
  const Batch b(1500);
  std::vector<double> call(1500), put(1500), call_of_arrays(1500), put_of_arrays(1500);
  const std::vector<double> rate(1500, 0.03), vol(1500, 0.25);
  black_scholes<double>(compute, {b.spot, b.strike, b.t, 0.03, b.div_yield, 0.25}, call, put);
  black_scholes<double>(compute, {b.spot, b.strike, b.t, rate, b.div_yield, vol}, call_of_arrays,
                        put_of_arrays);
  EXPECT_EQ(call, call_of_arrays);
  EXPECT_EQ(put, put_of_arrays);
}

TEST_F(BlackScholes, ZeroTimeOrVolatilityGivesTheDiscountedIntrinsicValue) {
  EXPECT_EQ(one(110, 100, 0, 0.05, 0.02, 0.3), std::pair(10.0, 0.0));
  EXPECT_EQ(one(90, 100, 0, 0.05, 0.02, 0.3), std::pair(0.0, 10.0));
  const auto [call, put] = one(100, 100, 1, 0.05, 0, 0);
  EXPECT_NEAR(call, 100 - 100 * std::exp(-0.05), 1e-13);
  EXPECT_NEAR(put, 0, 1e-13);
}

TEST_F(BlackScholes, AZeroSpotOrStrikeGivesTheDiscountedIntrinsicValue) {
  for (const double vol : {0.0, 0.2, 9.0}) {
    const auto [call, put] = one(0, 100, 2, 0.05, 0.01, vol);
    EXPECT_EQ(call, 0) << vol;
    EXPECT_NEAR(put, 100 * std::exp(-0.1), 1e-13) << vol;
    const auto [given, worthless] = one(100, 0, 2, 0.05, 0.01, vol);
    EXPECT_NEAR(given, 100 * std::exp(-0.02), 1e-13) << vol;
    EXPECT_EQ(worthless, 0) << vol;
    EXPECT_EQ(one(0, 0, 2, 0.05, 0.01, vol), std::pair(0.0, 0.0));
  }
  std::vector<float> call(2), put(2);
  const std::vector<float> spot{0, 100}, strike{100, 0};
  black_scholes<float>(compute, {spot, strike, 1.0f, 0.0f, 0.0f, 0.2f}, call, put);
  EXPECT_EQ(call, (std::vector<float>{0, 100}));
  EXPECT_EQ(put, (std::vector<float>{100, 0}));
}

TEST_F(BlackScholes, GreeksOfACertainOutcomeAreThoseOfTheDiscountedDifference) {
  struct Certain {
    double spot, strike, t, vol;
  };
  const double rate = 0.05, yield = 0.02;
  for (const auto& [spot, strike, t, vol] : {Certain{110, 100, 0, 0.3},
                                             {90, 100, 0, 0.3},
                                             {110, 100, 1, 0},
                                             {90, 100, 1, 0},
                                             {0, 100, 1, 0.2},
                                             {100, 0, 1, 0.2},
                                             {1, 1e12, 1, 0.2},
                                             {1e12, 1, 1, 0.2}})
    for (const auto kind : {OptionKind::call, OptionKind::put}) {
      SCOPED_TRACE(testing::PrintToString(std::array{spot, strike, t, vol}));
      const double w = kind == OptionKind::call ? 1 : -1;
      const double s = spot * std::exp(-yield * t), k = strike * std::exp(-rate * t);
      const double in = w * (s - k) > 0 ? 1 : 0;
      auto found = greeks(kind, spot, strike, t, rate, yield, vol);
      EXPECT_NEAR(found["price"], in * w * (s - k), 1e-12 * (s + k));
      EXPECT_NEAR(found["delta"], in * w * std::exp(-yield * t), 1e-15);
      EXPECT_NEAR(found["theta"], in * w * (yield * s - rate * k), 1e-12 * (s + k));
      EXPECT_NEAR(found["rho"], in * w * t * k, 1e-12 * (s + k));
      for (const char* none : {"gamma", "vega", "vanna", "vomma", "speed", "zomma", "color"})
        EXPECT_EQ(found[none], 0) << none;
    }
}

TEST_F(BlackScholes, APriceAmongTheGreeksIsNeverBelowZero) {
  for (double strike = 101; strike < 1e6; strike *= 1.07)
    for (const auto& [kind, spot, at] :
         {std::tuple(OptionKind::call, 100.0, strike), std::tuple(OptionKind::put, strike, 100.0)})
      EXPECT_GE(greeks(kind, spot, at, 0.1, 0.03, 0.01, 0.2)["price"], 0) << strike;
}

TEST_F(BlackScholes, InvalidInputsGiveNan) {
  const double good[] = {100, 100, 1, 0.05, 0.01, 0.2};
  const auto expect_nan = [&](const double(&x)[6]) {
    SCOPED_TRACE(testing::PrintToString(x));
    const auto [call, put] = one(x[0], x[1], x[2], x[3], x[4], x[5]);
    EXPECT_TRUE(std::isnan(call) && std::isnan(put)) << call << ' ' << put;
    for (const auto kind : {OptionKind::call, OptionKind::put})
      for (const auto& [name, value] : greeks(kind, x[0], x[1], x[2], x[3], x[4], x[5]))
        EXPECT_TRUE(std::isnan(value)) << name << ' ' << value;
  };
  for (std::size_t column = 0; column < 6; ++column)
    for (const double bad :
         {-1.0, double{INFINITY}, -double{INFINITY}, double{NAN}, -double{NAN}}) {
      const bool rate_or_yield = column == 3 || column == 4;
      if (rate_or_yield && bad == -1) continue;
      double x[6];
      std::copy(std::begin(good), std::end(good), x);
      x[column] = bad;
      expect_nan(x);
    }
  expect_nan({100, 100, INFINITY, -0.05, 0.05, 0.2});
  expect_nan({100, 100, INFINITY, 0, 0, 0});
}

TEST_F(BlackScholes, ColumnsOfDifferentLengthsAreRefused) {
  std::vector<double> three(3), two(2);
  EXPECT_THROW(black_scholes<double>(compute, {two, 1.0, 1.0, 0.0, 0.0, 0.2}, three, three), Error);
}

TEST_F(BlackScholes, PricesAndGreeksMatchEveryPublishedValue) {
  const auto rows = option_reference();
  if (rows.empty()) GTEST_SKIP() << "no " << option_reference_file();
  int checked = 0;
  for (const auto& row : rows) {
    if (row.text("product") != "vanilla" || row.text("exercise") != "european") continue;
    auto g = greeks(row.call() ? OptionKind::call : OptionKind::put, row.number("spot"),
                    row.number("strike"), row.number("t_used"), row.number("rate"),
                    row.number("div_yield"), row.number("vol"));
    g["theta_per_day"] = g["theta"] / 365;
    EXPECT_NEAR(g.at(row.text("quantity")), row.number("expected"), row.number("tol"))
        << "row " << row.text("id");
    ++checked;
  }
  EXPECT_EQ(checked, 54);
}

// Each Greek is a derivative of another; h is chosen for an error near 1e-7 relative.
TEST_F(BlackScholes, GreeksEqualNumericalDerivatives) {
  const double s = 97, k = 105, t = 0.8, r = 0.04, q = 0.015, v = 0.27, h = 1e-4;
  for (const auto kind : {OptionKind::call, OptionKind::put}) {
    const auto g = greeks(kind, s, k, t, r, q, v);
    const auto slope = [&](const char* of, double ds, double dt, double dr, double dq, double dv) {
      const auto up = greeks(kind, s + ds, k, t + dt, r + dr, q + dq, v + dv);
      const auto down = greeks(kind, s - ds, k, t - dt, r - dr, q - dq, v - dv);
      return (up.at(of) - down.at(of)) / (2 * (ds + dt + dr + dq + dv));
    };
    const auto expect = [&](const char* greek, double want) {
      EXPECT_NEAR(g.at(greek), want, 1e-6 * std::max(1.0, std::fabs(want))) << greek;
    };
    expect("delta", slope("price", h * 10, 0, 0, 0, 0));
    expect("gamma", slope("delta", h * 10, 0, 0, 0, 0));
    expect("speed", slope("gamma", h * 10, 0, 0, 0, 0));
    expect("vega", slope("price", 0, 0, 0, 0, h));
    expect("vomma", slope("vega", 0, 0, 0, 0, h));
    expect("vanna", slope("delta", 0, 0, 0, 0, h));
    expect("zomma", slope("gamma", 0, 0, 0, 0, h));
    expect("theta", -slope("price", 0, h, 0, 0, 0));
    expect("charm", -slope("delta", 0, h, 0, 0, 0));
    expect("color", -slope("gamma", 0, h, 0, 0, 0));
    expect("rho", slope("price", 0, 0, h, 0, 0));
    expect("dividend_rho", slope("price", 0, 0, 0, h, 0));
    EXPECT_NEAR(g.at("elasticity"), g.at("delta") * s / g.at("price"), 1e-12);
  }
}

class Implied : public BlackScholes {
 protected:
  std::pair<double, ImpliedReason> of(OptionKind kind, double price, double s, double k, double t,
                                      double r, double q) {
    double vol = -1;
    ImpliedReason reason{};
    implied_volatility(compute, price, {s, k, t, r, q, 0.0}, kind, {&vol, 1}, {&reason, 1});
    return {vol, reason};
  }
};

// A price determines the volatility as far as its last bit changes it.
TEST_F(Implied, TheVolatilityOfAPriceIsRecovered) {
  const Batch b(20000, 3);
  std::vector<double> call(20000), put(20000), vol(20000);
  std::vector<ImpliedReason> reasons(20000);
  black_scholes<double>(compute, b.columns(), call, put);
  for (const auto kind : {OptionKind::call, OptionKind::put}) {
    const auto& price = kind == OptionKind::call ? call : put;
    implied_volatility(compute, price, b.columns(), kind, vol, reasons);
    const auto greeks = black_scholes_greeks(compute, b.columns(), kind, 20000);
    int precise = 0;
    for (std::size_t i = 0; i < vol.size(); ++i) {
      const double blur = 4e-16 * (b.spot[i] + b.strike[i]) / greeks[Greek::vega][i];
      if (!(blur < 1e-11 * b.vol[i])) continue;
      ++precise;
      ASSERT_EQ(reasons[i], ImpliedReason::found);
      ASSERT_NEAR(vol[i], b.vol[i], 1e-10 * b.vol[i]) << i;
    }
    EXPECT_GT(precise, 15000);
  }
}

TEST_F(Implied, ExtremeStrikesAndVolatilitiesAreSolved) {
  for (const double strike : {20.0, 60.0, 99.0, 100.0, 101.0, 170.0, 500.0, 2000.0})
    for (const double vol : {0.05, 0.2, 0.8, 2.0, 5.0}) {
      const auto kind = strike < 100 ? OptionKind::put : OptionKind::call;  // out of the money
      const auto [call, put] = one(100, strike, 1, 0, 0, vol);
      const double price = kind == OptionKind::call ? call : put;
      if (price < 1e-290) continue;
      const auto [found, reason] = of(kind, price, 100, strike, 1, 0, 0);
      EXPECT_EQ(reason, ImpliedReason::found);
      EXPECT_NEAR(found, vol, 1e-10 * vol) << strike << ' ' << vol;
    }
}

TEST_F(Implied, TheReasonForAMissingVolatilityIsReported) {
  const auto reason = [&](double price, double s, double t) {
    return of(OptionKind::call, price, s, 100, t, 0, 0).second;
  };
  EXPECT_EQ(reason(19, 120, 1), ImpliedReason::below_intrinsic);
  EXPECT_EQ(reason(20, 120, 1), ImpliedReason::no_time_value);
  EXPECT_EQ(reason(120, 120, 1), ImpliedReason::above_maximum);
  EXPECT_EQ(reason(-1, 120, 1), ImpliedReason::below_intrinsic);
  EXPECT_EQ(reason(25, 120, 0), ImpliedReason::bad_input);
  EXPECT_EQ(reason(25, -120, 1), ImpliedReason::bad_input);
  EXPECT_EQ(reason(std::nan(""), 120, 1), ImpliedReason::bad_input);
  EXPECT_TRUE(std::isnan(of(OptionKind::call, 19, 120, 100, 1, 0, 0).first));
  EXPECT_EQ(of(OptionKind::call, 20, 120, 100, 1, 0, 0).first, 0);
}

}  // namespace
}  // namespace sluice::market
