#include "market/risk/covariance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"

namespace sluice::market {
namespace {

constexpr std::size_t kSeries = 5, kBars = 40;

class Covariance : public testing::Test {
 protected:
  // The data that the numbers of other libraries below were made with.
  static std::vector<double> waves(bool missing) {
    std::vector<double> r(kSeries * kBars);
    for (std::size_t i = 0; i < kSeries; ++i)
      for (std::size_t t = 0; t < kBars; ++t) {
        const double a = static_cast<double>(i), b = static_cast<double>(t);
        r[i * kBars + t] = std::sin(1.3 * a + 0.7 * b) * 0.01 + std::cos(a * b * 0.11) * 0.005;
      }
    if (missing) {
      for (std::size_t t = 0; t < 11; ++t) r[t] = std::nan("");
      for (const std::size_t t : {17u, 25u, 39u}) r[3 * kBars + t] = std::nan("");
    }
    return r;
  }
  std::vector<double> of(const std::vector<double>& r, std::size_t series, std::size_t bars,
                         const CovarianceOptions& options) {
    std::vector<double> out(r.size() / bars * series);
    share.resize(r.size() / bars / series);
    covariance(compute, r, series, bars, out, options, share);
    return out;
  }
  std::vector<double> of_waves(bool missing, const CovarianceOptions& options) {
    return of(waves(missing), kSeries, kBars, options);
  }

  compute::Compute compute{{.threads = 2}};
  std::vector<double> share;
};

TEST_F(Covariance, SampleAgreesWithPandas) {
  const auto full = of_waves(false, {});
  EXPECT_NEAR(full[0 * kSeries + 3], -0.008499628133211175, 1e-16);
  EXPECT_NEAR(full[4 * kSeries + 4], 0.017349937869386687, 1e-16);
  const auto gaps = of_waves(true, {});
  EXPECT_NEAR(gaps[0 * kSeries + 3], -0.010462295687280276, 1e-16);
  EXPECT_NEAR(gaps[3 * kSeries + 3], 0.015093940299287904, 1e-16);
  EXPECT_NEAR(gaps[4 * kSeries + 4], full[4 * kSeries + 4], 1e-16);
}

TEST_F(Covariance, LedoitWolfAgreesWithScikitLearn) {
  const CovarianceOptions options{.kind = CovarianceKind::ledoit_wolf};
  const auto full = of_waves(false, options);
  EXPECT_NEAR(share[0], 0.08427308772917742, 1e-14);
  EXPECT_NEAR(full[0 * kSeries + 3], -0.007588754770228794, 1e-16);
  EXPECT_NEAR(full[4 * kSeries + 4], 0.01675231503226891, 1e-16);
  const auto gaps = of_waves(true, options);
  EXPECT_NEAR(share[0], 0.10039255092180806, 1e-14);
  EXPECT_NEAR(gaps[3 * kSeries + 0], -0.0055231267889727246, 1e-16);
  EXPECT_NEAR(gaps[4 * kSeries + 4], 0.016686393126781, 1e-15);
}

TEST_F(Covariance, OneSeriesIsNotShrunk) {
  const std::vector<double> returns{0.01, -0.02, 0.005, 0.03};
  std::vector<double> out(1), shrinkage{-1};
  covariance(compute, returns, 1, 4, out,
             {.kind = CovarianceKind::ledoit_wolf, .periods_per_year = 1}, shrinkage);
  EXPECT_EQ(shrinkage[0], 0);
  EXPECT_NEAR(out[0], 0.00031718750000000003, 1e-18);  // over n
}

TEST_F(Covariance, EwmaAgreesWithPyPortfolioOpt) {
  const CovarianceOptions options{.kind = CovarianceKind::ewma, .span = 20};
  const auto full = of_waves(false, options);
  EXPECT_NEAR(full[3 * kSeries + 0], -0.007592725591657254, 1e-16);
  EXPECT_NEAR(full[4 * kSeries + 4], 0.018770908862683015, 1e-16);
  const auto gaps = of_waves(true, options);
  EXPECT_NEAR(gaps[0 * kSeries + 3], -0.009147654502065658, 1e-16);
  EXPECT_NEAR(gaps[3 * kSeries + 3], 0.012670327346320565, 1e-16);
}

TEST_F(Covariance, EveryTileShapeGivesTheSameResult) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0.5, 0.01);
  for (const std::size_t series : {1u, 2u, 3u, 4u, 5u, 7u, 31u, 33u, 67u})
    for (const std::size_t bars : {2u, 7u, 8u, 9u, 511u, 1025u}) {
      SCOPED_TRACE(testing::Message() << series << " x " << bars);
      std::vector<double> r(series * bars);
      for (double& x : r) x = normal(random);
      const auto got = of(r, series, bars, {.periods_per_year = 1});
      for (const std::size_t i : {std::size_t{0}, series / 2, series - 1})
        for (std::size_t j = 0; j < series; ++j) {
          long double mi = 0, mj = 0, sum = 0;
          for (std::size_t t = 0; t < bars; ++t) mi += r[i * bars + t], mj += r[j * bars + t];
          for (std::size_t t = 0; t < bars; ++t)
            sum += (r[i * bars + t] - mi / bars) * (r[j * bars + t] - mj / bars);
          ASSERT_NEAR(got[i * series + j], static_cast<double>(sum / (bars - 1)), 1e-17);
          ASSERT_EQ(got[i * series + j], got[j * series + i]);
        }
    }
}

TEST_F(Covariance, DataSetsOfABatchAreIndependent) {
  auto r = waves(false);
  const auto other = waves(true);
  r.insert(r.end(), other.begin(), other.end());
  const auto batch = of(r, kSeries, kBars, {});
  const auto first = of_waves(false, {}), second = of_waves(true, {});
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(batch[i], first[i]);
    EXPECT_EQ(batch[first.size() + i], second[i]);
  }
}

TEST_F(Covariance, MismatchedShapesAreRefused) {
  std::vector<double> out(25);
  EXPECT_THROW(covariance(compute, waves(false), 5, 39, out), Error);
  EXPECT_THROW(covariance(compute, waves(false), 4, 40, out), Error);
  EXPECT_THROW(
      covariance(compute, waves(false), 5, 40, out, {.kind = CovarianceKind::ewma, .span = 0.5}),
      Error);
}

}  // namespace
}  // namespace sluice::market
