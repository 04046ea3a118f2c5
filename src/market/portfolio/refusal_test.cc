// Invalid and infeasible portfolio problems are refused with a reason.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "market/portfolio/cvar.h"
#include "market/portfolio/portfolio.h"

namespace sluice::market {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "none";
}

TEST(Portfolio, AnInvalidCovarianceIsRefused) {
  const std::vector<double> mean{0.1, 0.2};
  for (const std::vector<double>& wrong :
       {std::vector<double>{1, 2, 2, 1}, {-1, 0, 0, 1}, {1, 0.3, 0.1, 1}})
    for (const auto kind : {Goal::Kind::max_sharpe, Goal::Kind::min_volatility})
      EXPECT_THAT(refusal_of([&] {
                    optimise({mean, wrong}, {.kind = kind});
                  }),
                  HasSubstr("covariance"));
}

TEST(Portfolio, RiskParityRefusesLimits) {
  const std::vector<double> mean{0.1, 0.2}, covariance{0.01, 0, 0, 0.09};
  const std::vector<std::string> names{"A", "B"};
  const Goal goal{.kind = Goal::Kind::risk_parity};
  EXPECT_THAT(optimise({mean, covariance, names}, goal).weights,
              ElementsAre(DoubleNear(0.75, 1e-12), DoubleNear(0.25, 1e-12)));
  PortfolioLimits capped{.upper = {0.6}}, moved{.held = {0.5, 0.5}, .turnover = 0.1};
  for (const auto& limits : {capped, moved})
    EXPECT_THAT(refusal_of([&] {
                  optimise({mean, covariance, names}, goal, limits);
                }),
                HasSubstr("no limits"));
  const std::vector<double> still{0.01, 0, 0, 0};
  EXPECT_THAT(refusal_of([&] {
                optimise({mean, still, names}, goal);
              }),
              HasSubstr("B has no variance"));
}

TEST(Portfolio, APortfolioWithoutMeansHasNoReturn) {
  const std::vector<double> covariance{0.01, 0, 0, 0.09};
  const auto found = optimise({{}, covariance}, {});
  EXPECT_TRUE(std::isnan(found.expected_return) && std::isnan(found.sharpe));
  EXPECT_NEAR(found.weights[0], 0.9, 1e-12);
}

TEST(Portfolio, DataOfDifferentSizesAreRefused) {
  const std::vector<double> mean{0.1, 0.2}, c{1, 0, 0, 1}, wrong{1, 2, 3}, bad{1, NAN, NAN, 1};
  EXPECT_THAT(refusal_of([&] { optimise({mean, wrong}, {}); }), HasSubstr("square"));
  EXPECT_THAT(refusal_of([&] { optimise({mean, bad}, {}); }), HasSubstr("finite"));
  EXPECT_THAT(refusal_of([&] {
                optimise({{}, c}, {.kind = Goal::Kind::max_sharpe});
              }),
              HasSubstr("0 mean returns for 2 assets"));
  EXPECT_THAT(refusal_of([&] {
                optimise({mean, c}, {}, {.lower = {0, 0, 0}});
              }),
              HasSubstr("3 limits for 2 weights"));
  EXPECT_THAT(refusal_of([&] {
                optimise({mean, c}, {}, {.lower = {0.7}, .upper = {0.6}});
              }),
              HasSubstr("asset 0 must be at least 0.7"));
}

TEST(Portfolio, ASectorWithoutAssetsIsRefusedByName) {
  const std::vector<double> c{1, 0, 0, 1};
  PortfolioLimits limits;
  limits.sectors = {{"tech", {}, 5, kNoLimit}};
  EXPECT_EQ(refusal_of([&] { optimise({{}, c}, {}, limits); }), "sector tech has no assets");
}

TEST(Portfolio, NoLimitIsNamedAmongVeryMany) {
  const std::vector<double> c{1, 0, 0, 1};
  PortfolioLimits limits;
  limits.sectors.assign(100, {"tech", {0, 1}, 5, 6});
  EXPECT_THAT(refusal_of([&] { optimise({{}, c}, {}, limits); }), HasSubstr("tech is at least 5"));
  limits.sectors.assign(9000, {"tech", {0, 1}, 5, 6});
  EXPECT_THAT(refusal_of([&] {
                optimise({{}, c}, {}, limits);
              }),
              AllOf(HasSubstr("too many limits"), Not(HasSubstr("tech"))));
}

TEST(Cvar, AMissingOptimumIsReported) {
  std::vector<double> returns;
  for (int i = 0; i < 300; ++i) returns.push_back(std::sin(i * i));
  const std::vector<double> mean{0.1, 0.2, 0.3};
  EXPECT_GT(optimise_cvar({mean, returns}, {}).cuts, 3);
  EXPECT_THAT(refusal_of([&] {
                optimise_cvar({mean, returns}, {.max_cuts = 3});
              }),
              HasSubstr("3 cuts are too few"));
}

TEST(Portfolio, LongNamesAreCutInMessages) {
  const std::vector<double> c{1, 0, 0, 1};
  const std::vector<std::string> names{std::string(5'000'000, 'A'), "B"};
  PortfolioLimits limits{.lower = {5}, .upper = {6}};
  limits.sectors = {{std::string(5'000'000, 'C'), {0, 1}, 7, 8}};
  EXPECT_LT(refusal_of([&] { optimise({{}, c, names}, {}, limits); }).size(), 1000u);
}

TEST(Portfolio, ASectorHasAnAssetOnce) {
  const std::vector<double> mean{0.1, 0.2}, c{1, 0, 0, 1};
  PortfolioLimits limits;
  limits.sectors = {{"tech", {0, 0}, 0, 0.3}};
  EXPECT_THAT(refusal_of([&] { optimise({mean, c}, {}, limits); }), HasSubstr("tech"));
}

}  // namespace
}  // namespace sluice::market
