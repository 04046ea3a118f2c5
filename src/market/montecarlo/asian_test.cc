#include "market/montecarlo/asian.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "market/math/normals.h"
#include "market/math/philox.h"
#include "market/options/reference_for_tests.h"

namespace sluice::market {
namespace {

AsianOption of_row(const ReferenceRow& row) {
  return {.kind = row.call() ? OptionKind::call : OptionKind::put,
          .spot = row.number("spot"),
          .strike = row.number("strike"),
          .rate = row.number("rate"),
          .div_yield = row.number("div_yield"),
          .vol = row.number("vol"),
          .fixings = static_cast<int>(row.number("n_fixings")),
          .first_fixing = row.number("first_fixing"),
          .span = row.number("fixing_span"),
          .expiry = row.number("t_used")};
}

class Asian : public testing::Test {
 protected:
  compute::Compute compute{{.threads = 2}};
};

TEST(Normals, NormalsAreTheBoxMullerTransformOfTheirWords) {
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const auto w = philox::random(philox::counter(i, 0), philox::key_of(7));
    const auto z = normals::box_muller(w.x0, w.x1);
    const double u = static_cast<double>(normals::uniform(w.x0));
    const double radius = std::sqrt(-2 * std::log(u));
    const double angle = M_PI * static_cast<double>(normals::half_turns(w.x1));
    ASSERT_NEAR(z.first, radius * std::cos(angle), 1e-6) << i;
    ASSERT_NEAR(z.second, radius * std::sin(angle), 1e-6) << i;
  }
}

TEST(Normals, NormalsAreFiniteAtTheEndsOfTheRange) {
  for (const std::uint32_t word : {0u, 1u, 2u, 0x7fffffffu, 0x80000000u, 0xfffffffeu, 0xffffffffu})
    EXPECT_TRUE(std::isfinite(normals::box_muller(word, word).first)) << word;
  EXPECT_GT(std::hypot(normals::box_muller(0, 0).first, normals::box_muller(0, 0).second), 6.5f);
}

TEST(Normals, NormalsHaveTheMomentsOfANormalDistribution) {
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  constexpr int kDraws = 1 << 20;
  for (std::uint32_t i = 0; i < kDraws / 2; ++i) {
    const auto w = philox::random(philox::counter(i, 0), philox::key_of(1));
    const auto z = normals::box_muller(w.x0, w.x1);
    for (const double x : {static_cast<double>(z.first), static_cast<double>(z.second)}) {
      m1 += x;
      m2 += x * x;
      m3 += x * x * x;
      m4 += x * x * x * x;
    }
  }
  EXPECT_NEAR(m1 / kDraws, 0, 5e-3);  // five standard errors
  EXPECT_NEAR(m2 / kDraws, 1, 7e-3);
  EXPECT_NEAR(m3 / kDraws, 0, 2e-2);
  EXPECT_NEAR(m4 / kDraws, 3, 5e-2);
}

TEST_F(Asian, TheGeometricMeanOptionIsExact) {
  int checked = 0;
  for (const auto& row : option_reference())
    if (row.text("product") == "asian_discrete_price" && row.text("method") == "analytic") {
      EXPECT_NEAR(asian_geometric(of_row(row)), row.number("expected"), row.number("tol") + 1e-9);
      ++checked;
    }
  if (checked == 0) GTEST_SKIP() << "no " << option_reference_file();
}

TEST_F(Asian, ArithmeticPricesMatchThePublishedOnes) {
  int checked = 0;
  for (const auto& row : option_reference()) {
    if (row.text("product") != "asian_discrete_price" || row.text("method") != "levy_1997")
      continue;
    const auto e = asian(compute, of_row(row), {.paths = 1 << 15});
    EXPECT_NEAR(e.price, row.number("expected"), row.number("tol")) << "row " << row.text("id");
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "no " << option_reference_file();
  EXPECT_EQ(checked, 30);
}

TEST_F(Asian, TheControlVariateRemovesAlmostAllOfTheError) {
  const auto with = asian(compute, {}, {.paths = 1 << 16});
  const auto without = asian(compute, {}, {.paths = 1 << 16, .control_variate = false});
  EXPECT_LT(with.standard_error * 10, without.standard_error);
  EXPECT_NEAR(with.price, without.price, 4 * without.standard_error);
}

TEST_F(Asian, StandardErrorsMatchTheSpreadOverSeeds) {
  double sum = 0, squares = 0, claimed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto e = asian(compute, {}, {.paths = 1 << 14, .seed = seed, .control_variate = false});
    sum += e.price / 40;
    squares += e.price * e.price / 40;
    claimed += e.standard_error / 40;
  }
  const double seen = std::sqrt((squares - sum * sum) * 40 / 39);
  EXPECT_NEAR(seen / claimed, 1, 0.35);  // three standard errors of a deviation from 40
}

TEST_F(Asian, AnyNumberOfThreadsGivesTheSameBits) {
  compute::Compute alone{{.threads = 1}}, many{{.threads = 5}};
  const SimulationOptions simulation{.paths = 100000, .seed = 9};
  const auto a = asian(alone, {}, simulation), b = asian(many, {}, simulation);
  EXPECT_EQ(a.price, b.price);
  EXPECT_EQ(a.standard_error, b.standard_error);
  EXPECT_EQ(a.paths, b.paths);
  EXPECT_GE(a.paths, 100000u);
}

TEST_F(Asian, ThePriceWithoutVolatilityIsThatOfTheMeanForward) {
  const AsianOption o{
      .strike = 90, .rate = 0.1, .vol = 0, .fixings = 4, .first_fixing = 0.25, .span = 0.75};
  double mean = 0;
  for (const double t : {0.25, 0.5, 0.75, 1.0}) mean += 25 * std::exp(0.1 * t);
  EXPECT_NEAR(asian(compute, o, {.paths = 4096}).price, (mean - 90) * std::exp(-0.1), 1e-4);
}

// The kernels round each price to a float. The standard error of the paths alone was up to 1000
// times smaller than that.
TEST_F(Asian, TheStandardErrorIncludesTheRoundingOfFloats) {
  for (const double vol : {1e-6, 1e-5, 1e-4}) {
    // The mean of the fixings is nearly normal, and the price that of its deviation.
    const AsianOption o{.vol = vol};
    const auto e = asian(compute, o, {.paths = 1 << 18});
    EXPECT_GE(e.standard_error, 1e-5);
    EXPECT_NEAR(e.price, asian_geometric(o), 4 * e.standard_error) << vol;
  }
}

TEST_F(Asian, InvalidOptionsAreRefused) {
  EXPECT_THROW(asian(compute, {.fixings = 0}), Error);
  EXPECT_THROW(asian(compute, {.vol = std::nan("")}), Error);
}

}  // namespace
}  // namespace sluice::market
