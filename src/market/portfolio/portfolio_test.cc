#include "market/portfolio/portfolio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>

#include "base/error.h"
#include "market/portfolio/cvar.h"

namespace sluice::market {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<Row> read(const char* name) {
  std::ifstream file(std::filesystem::path(SLUICE_TEST_DATA) / "market" / name);
  std::vector<Row> rows;
  std::string line;
  if (!std::getline(file, line)) return rows;
  const auto header = cells_of(line);
  while (std::getline(file, line)) {
    auto cells = cells_of(line);
    cells.resize(header.size());
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

double number(const Row& row, const std::string& column) {
  const std::string& cell = row.at(column);
  return cell.empty() ? 0 : std::stod(cell);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// The 20 assets of PyPortfolioOpt's tests.
class Reference : public testing::Test {
 protected:
  void SetUp() override {
    for (const Row& row : read("portfolio_weights.csv")) {
      names.push_back(row.at("ticker"));
      mean.push_back(number(row, "mean_return"));
      min_vol.push_back(number(row, "min_vol_long_only"));
      max_sharpe.push_back(number(row, "max_sharpe_long_only_rf002"));
    }
    for (const Row& row : read("portfolio_cov.csv"))
      for (const auto& name : names) covariance.push_back(number(row, name));
    if (names.empty()) GTEST_SKIP() << "no reference data at " << SLUICE_TEST_DATA;
  }
  Assets assets() const { return {mean, covariance, names}; }

  std::vector<std::string> names;
  std::vector<double> mean, covariance, min_vol, max_sharpe;
};

Goal goal_of(const Row& row) {
  const std::string& text = row.at("objective");
  Goal goal{.value = number(row, "target"), .risk_free = number(row, "risk_free")};
  const auto open = text.find('=');
  if (open != std::string::npos) goal.value = std::stod(text.substr(open + 1));
  using K = Goal::Kind;
  goal.kind = text.starts_with("min_vol")          ? K::min_volatility
              : text.starts_with("max_sharpe")     ? K::max_sharpe
              : text.starts_with("max_quadratic")  ? K::max_quadratic_utility
              : text.starts_with("efficient_risk") ? K::target_risk
                                                   : K::target_return;
  return goal;
}

PortfolioLimits limits_of(const Row& row) {
  PortfolioLimits limits{.sum = number(row, "sum_of_weights"), .l2 = number(row, "l2_gamma")};
  const std::string& bounds = row.at("weight_bounds");
  if (bounds == "none") limits.lower = {-kNoLimit}, limits.upper = {kNoLimit};
  if (bounds == "-1..1") limits.lower = {-1};
  return limits;
}

TEST_F(Reference, MeanVarianceReferencesAreMatchedWithinTheirTolerance) {
  int rows = 0;
  for (const Row& row : read("portfolio_reference.csv")) {
    if (row.at("risk_measure") != "volatility") continue;
    SCOPED_TRACE(row.at("source_test"));
    const Goal goal = goal_of(row);
    const Portfolio p = optimise(assets(), goal, limits_of(row));
    const double tolerance = number(row, "tol_abs");
    EXPECT_NEAR(p.expected_return, number(row, "expected_return"), tolerance);
    EXPECT_NEAR(p.volatility, number(row, "expected_risk"), tolerance);
    EXPECT_NEAR(p.sharpe, number(row, "expected_ratio"), tolerance);
    ++rows;
  }
  EXPECT_EQ(rows, 14);
}

TEST_F(Reference, WeightsAreThoseOfAnExactSolver) {
  EXPECT_THAT(optimise(assets(), {}).weights, Pointwise(DoubleNear(1e-12), min_vol));
  EXPECT_THAT(optimise(assets(), {.kind = Goal::Kind::max_sharpe, .risk_free = 0.02}).weights,
              Pointwise(DoubleNear(1e-12), max_sharpe));
}

TEST_F(Reference, TheFrontierRisesFromMinimumRiskToTheBestAsset) {
  const auto frontier = efficient_frontier(assets(), 20);
  ASSERT_EQ(frontier.size(), 20u);
  EXPECT_THAT(frontier[0].weights, Pointwise(DoubleNear(1e-12), min_vol));
  EXPECT_NEAR(frontier.back().expected_return, *std::max_element(mean.begin(), mean.end()), 1e-9);
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i].expected_return, frontier[i - 1].expected_return);
    EXPECT_GT(frontier[i].volatility, frontier[i - 1].volatility);
  }
}

TEST_F(Reference, SectorTurnoverAndLeverageLimitsHoldAndBind) {
  PortfolioLimits limits{.lower = {-0.5}, .upper = {0.5}};
  limits.sectors = {{"tech", {0, 1, 2, 4, 6}, 0.1, 0.3}, {"energy", {13, 14}, 0.05, kNoLimit}};
  limits.leverage = 1.4;
  limits.held.assign(names.size(), 1.0 / static_cast<double>(names.size()));
  const Goal goal{.kind = Goal::Kind::max_quadratic_utility, .value = 3};
  const Portfolio loose = optimise(assets(), goal, limits);
  limits.turnover = 0.4;
  const Portfolio tight = optimise(assets(), goal, limits);
  const auto utility = [](const Portfolio& p) {
    return p.expected_return - 1.5 * p.volatility * p.volatility;
  };
  EXPECT_GT(utility(loose), utility(tight));
  for (const Portfolio* p : {&loose, &tight}) {
    double gross = 0, sum = 0;
    for (const double w : p->weights) gross += std::abs(w), sum += w;
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_LT(gross, 1.4 + 1e-9);
    EXPECT_LT(p->weights[0] + p->weights[1] + p->weights[2] + p->weights[4] + p->weights[6],
              0.3 + 1e-9);
  }
  double turnover = 0;
  for (const double w : tight.weights) turnover += std::abs(w - 0.05);
  EXPECT_NEAR(turnover, 0.4, 1e-8);
}

// No portfolio within the limits near a solution is better: a check without another solver.
TEST_F(Reference, NoSmallExchangeOfWeightsImprovesASolution) {
  PortfolioLimits limits{.upper = {0.2}};
  limits.held = min_vol;
  limits.turnover = 0.5;
  const Portfolio p =
      optimise(assets(), {.kind = Goal::Kind::max_quadratic_utility, .value = 2}, limits);
  const auto utility = [&](const std::vector<double>& w) {
    double variance = 0, gain = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      gain += mean[i] * w[i];
      for (std::size_t j = 0; j < w.size(); ++j)
        variance += w[i] * w[j] * covariance[i * w.size() + j];
    }
    return gain - variance;
  };
  const double best = utility(p.weights);
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (std::size_t j = 0; j < mean.size(); ++j) {
      auto w = p.weights;
      w[i] += 1e-4, w[j] -= 1e-4;
      double turnover = 0;
      for (std::size_t k = 0; k < w.size(); ++k) turnover += std::abs(w[k] - min_vol[k]);
      if (w[i] > 0.2 || w[j] < 0 || turnover > 0.5 + 1e-12) continue;
      EXPECT_LT(utility(w), best + 1e-12) << names[i] << " for " << names[j];
    }
}

TEST_F(Reference, ConflictingLimitsAreNamed) {
  PortfolioLimits limits{.upper = {0.04}};
  EXPECT_THAT(error_of([&] { optimise(assets(), {}, limits); }),
              AllOf(HasSubstr("the weights sum to 1"), HasSubstr("at most 0.04")));
  limits.upper = {1};
  limits.sectors = {{"tech", {0, 1, 2}, 0.7, kNoLimit}, {"banks", {8, 18}, 0.6, kNoLimit}};
  const auto sectors = error_of([&] { optimise(assets(), {}, limits); });
  EXPECT_THAT(sectors, AllOf(HasSubstr("sector tech is at least 0.7"),
                             HasSubstr("sector banks is at least 0.6")));
  limits.sectors.clear();
  EXPECT_THAT(error_of([&] {
                optimise(assets(), {.kind = Goal::Kind::target_return, .value = 0.5}, limits);
              }),
              HasSubstr("the return is at least 0.5"));
  EXPECT_THAT(error_of([&] {
                optimise(assets(), {.kind = Goal::Kind::target_risk, .value = 0.1}, limits);
              }),
              HasSubstr("the lowest is 0.159"));
  limits.held.assign(20, 0.0);
  limits.turnover = 0.5;
  EXPECT_THAT(error_of([&] { optimise(assets(), {}, limits); }),
              HasSubstr("turnover is at most 0.5"));
}

TEST_F(Reference, AnInfeasibleMaxSharpeNamesOnlyTheConflictingLimits) {
  const Goal best{.kind = Goal::Kind::max_sharpe};
  PortfolioLimits limits{.leverage = 0.5};
  EXPECT_THAT(
      error_of([&] { optimise(assets(), best, limits); }),
      EndsWith("no portfolio fulfils all of: the weights sum to 1; leverage is at most 0.5"));
  limits = {.upper = {0.04}};
  EXPECT_THAT(error_of([&] { optimise(assets(), best, limits); }),
              AllOf(HasSubstr("at most 0.04"), Not(HasSubstr("at least"))));
  EXPECT_THAT(
      error_of([&] { optimise(assets(), {.kind = Goal::Kind::max_sharpe, .risk_free = 5}); }),
      AllOf(HasSubstr("above the risk-free 5"), HasSubstr("the highest is 0.3")));
}

TEST_F(Reference, AnUnboundedGoalIsRefused) {
  const PortfolioLimits none{.lower = {-kNoLimit}, .upper = {kNoLimit}, .sum = 0};
  const std::vector<double> zero(400, 0.0);
  EXPECT_THAT(error_of([&] {
                optimise({mean, zero, names},
                         {.kind = Goal::Kind::max_quadratic_utility, .value = 1}, none);
              }),
              HasSubstr("no bound"));
}

TEST_F(Reference, RiskParityGivesEachAssetItsShare) {
  const auto equal = optimise(assets(), {.kind = Goal::Kind::risk_parity});
  for (const double share : risk_shares(covariance, equal.weights)) EXPECT_NEAR(share, 0.05, 1e-13);
  EXPECT_NEAR(std::accumulate(equal.weights.begin(), equal.weights.end(), 0.0), 1, 1e-14);
  Goal budgets{.kind = Goal::Kind::risk_parity};
  for (int i = 1; i <= 20; ++i) budgets.shares.push_back(i * i);
  const auto shares = risk_shares(covariance, optimise(assets(), budgets).weights);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(shares[i], budgets.shares[i] / 2870, 1e-13);
}

TEST_F(Reference, ABatchGivesTheResultsOfSingleTasks) {
  compute::Workers workers(2);
  const PortfolioLimits impossible{.upper = {0.01}};
  std::vector<PortfolioTask> tasks(40, {assets(), {}});
  tasks[7].limits = &impossible;
  tasks[8].goal.kind = Goal::Kind::risk_parity;
  const auto results = optimise_all(workers, tasks);
  EXPECT_THAT(results[7].error, HasSubstr("at most 0.01"));
  EXPECT_EQ(results[8].error, "");
  EXPECT_EQ(results[39].portfolio.weights, results[0].portfolio.weights);
}

// The days with a price for every ticker, by the xz program.
std::vector<std::vector<double>> full_prices() {
  const std::string file = SLUICE_TEST_DATA "/market/portfolio_prices.csv.xz";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("xz -dc " + file + " 2>&1").c_str(), "r"),
                                             pclose);
  std::vector<std::vector<double>> days;
  char line[4096];
  while (pipe != nullptr && fgets(line, sizeof line, pipe.get()) != nullptr) {
    auto cells = cells_of(std::string(line).substr(0, std::strcspn(line, "\r\n")));
    const bool full = cells.size() == 21 && cells[0] != "date" &&
                      std::find(cells.begin(), cells.end(), "") == cells.end();
    if (!full) continue;
    days.emplace_back();
    for (std::size_t i = 1; i < cells.size(); ++i) days.back().push_back(std::stod(cells[i]));
  }
  return days;
}

TEST_F(Reference, CvarReferencesAreMatchedWithinTheirTolerance) {
  const auto days = full_prices();
  if (days.size() < 100) GTEST_SKIP() << "xz cannot unpack the prices";
  const std::size_t n = names.size(), count = days.size() - 1;
  std::vector<double> returns(n * count), growth(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t t = 0; t < count; ++t)
      returns[i * count + t] = days[t + 1][i] / days[t][i] - 1;
    growth[i] = std::pow(days[count][i] / days[0][i], 252.0 / static_cast<double>(count)) - 1;
  }
  int rows = 0;
  for (const Row& row : read("portfolio_reference.csv")) {
    if (row.at("risk_measure") != "cvar_daily") continue;
    SCOPED_TRACE(row.at("source_test"));
    using K = CvarGoal::Kind;
    const bool is_min_cvar = row.at("objective").starts_with("min_cvar");
    const CvarGoal goal{
        .kind = is_min_cvar ? K::min_cvar
                : row.at("objective").starts_with("efficient_r") && row.at("objective")[11] == 'i'
                    ? K::target_risk
                    : K::target_return,
        .value = number(row, "target")};
    const auto p = optimise_cvar({is_min_cvar ? mean : growth, returns, names}, goal);
    EXPECT_NEAR(p.expected_return, number(row, "expected_return"), number(row, "tol_abs"));
    EXPECT_NEAR(p.cvar, number(row, "expected_risk"), number(row, "tol_abs"));
    ++rows;
  }
  EXPECT_EQ(rows, 3);
}

TEST(Cvar, TheWorstScenariosCountTheLastInPart) {
  const std::vector<double> losses{1, 5, 3, 2, 4};
  EXPECT_DOUBLE_EQ(cvar_of(losses, 0.8), 5);
  EXPECT_DOUBLE_EQ(cvar_of(losses, 0.7), (5 + 0.5 * 4) / 1.5);
}

// A singular covariance: more assets than bars.
TEST(Portfolio, ASingularCovarianceGivesWeightsWithinTheLimits) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const std::size_t n = 60, bars = 20;
  std::vector<double> x(n * bars), c(n * n, 0.0), mean(n);
  for (double& v : x) v = normal(random);
  for (double& v : mean) v = 0.1 + 0.05 * normal(random);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t t = 0; t < bars; ++t)
        c[i * n + j] += x[i * bars + t] * x[j * bars + t] / bars;
  for (const auto kind : {Goal::Kind::min_volatility, Goal::Kind::max_quadratic_utility}) {
    const Portfolio p = optimise({mean, c, {}}, {.kind = kind, .value = 1});
    for (const double w : p.weights) EXPECT_GT(w, -1e-9);
    EXPECT_NEAR(std::accumulate(p.weights.begin(), p.weights.end(), 0.0), 1, 1e-9);
  }
}

struct RandomAssets {
  std::vector<double> mean, covariance, held;

  RandomAssets(std::size_t n, std::uint64_t seed) : mean(n), covariance(n * n, 0.0), held(n) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const std::size_t bars = 3 * n + 10;
    std::vector<double> x(n * bars);
    for (double& v : x) v = 0.3 * normal(random);
    for (double& v : mean) v = 0.1 + 0.1 * normal(random);
    for (double& v : held) v = uniform(random);
    const double sum = std::accumulate(held.begin(), held.end(), 0.0);
    for (double& v : held) v /= sum;
    for (std::size_t i = 0; i < n * n; ++i)
      for (std::size_t t = 0; t < bars; ++t)
        covariance[i] += x[i / n * bars + t] * x[i % n * bars + t] / static_cast<double>(bars);
  }
};

// The steps of the solver once went in circles for some of these.
TEST(Portfolio, ATargetRiskIsFoundForEveryTurnover) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const RandomAssets a(5 + seed, seed);
    PortfolioLimits limits{.lower = {seed % 2 == 0 ? 0.0 : -0.3}};
    limits.held = a.held;
    for (const double turnover : {0.01, 0.05, 0.4}) {
      limits.turnover = turnover;
      const double target = 1.1 * optimise({a.mean, a.covariance}, {}, limits).volatility;
      const Portfolio p = optimise({a.mean, a.covariance},
                                   {.kind = Goal::Kind::target_risk, .value = target}, limits);
      double moved = 0;
      for (std::size_t i = 0; i < a.held.size(); ++i) moved += std::abs(p.weights[i] - a.held[i]);
      EXPECT_LT(moved, turnover + 1e-8);
      EXPECT_LT(p.volatility, target * (1 + 1e-9));
    }
  }
}

// Three assets without correlation; the first may be left out.
const std::vector<double> kThreeVariances{0.04, 0, 0, 0, 0.04, 0, 0, 0, 0.0025};

TEST(Portfolio, AnExcludedAssetDoesNotChangeTheOthers) {
  const PortfolioLimits without_first{.lower = {0}, .upper = {0, 1, 1}};
  for (const Goal::Kind kind : {Goal::Kind::target_risk, Goal::Kind::max_sharpe,
                                Goal::Kind::max_quadratic_utility, Goal::Kind::target_return}) {
    const Goal goal{.kind = kind, .value = kind == Goal::Kind::target_return ? 0.08 : 0.15};
    const std::vector<double> usual{0.1, 0.1, 0.05};
    const Portfolio want = optimise({usual, kThreeVariances}, goal, without_first);
    for (const double mean : {-1e6, 1e6, 1e12})
      for (const double variance : {0.04, 1e9}) {
        const std::vector<double> extreme{mean, 0.1, 0.05};
        std::vector<double> covariance = kThreeVariances;
        covariance[0] = variance;
        const Portfolio got = optimise({extreme, covariance}, goal, without_first);
        EXPECT_THAT(got.weights, Pointwise(DoubleNear(1e-9), want.weights));
        EXPECT_NEAR(got.volatility, want.volatility, 1e-9);
        EXPECT_NEAR(got.expected_return, want.expected_return, 1e-9);
      }
    if (kind == Goal::Kind::target_risk) {
      EXPECT_NEAR(want.volatility, 0.15, 1e-9);
    }
  }
}

TEST(Portfolio, TheScaleOfTheMeansDoesNotMatter) {
  std::vector<double> first;
  for (const double scale : {1.0, 1e-10, 1e-100, 1e6}) {
    const std::vector<double> mean{scale, 2 * scale, 0.5 * scale};
    const auto frontier = efficient_frontier({mean, kThreeVariances}, 3);
    EXPECT_NEAR(frontier.back().expected_return / scale, 2, 1e-9) << scale;
    if (first.empty()) first = frontier[1].weights;
    EXPECT_THAT(frontier[1].weights, Pointwise(DoubleNear(1e-6), first)) << scale;
    const Portfolio best = optimise({mean, kThreeVariances}, {.kind = Goal::Kind::max_sharpe});
    EXPECT_NEAR(best.weights[0], 25.0 / 275, 1e-6) << scale;
    const Portfolio risky =
        optimise({mean, kThreeVariances}, {.kind = Goal::Kind::target_risk, .value = 0.15});
    EXPECT_NEAR(risky.volatility, 0.15, 1e-9) << scale;
    const Portfolio bold =
        optimise({mean, kThreeVariances}, {.kind = Goal::Kind::target_risk, .value = 9});
    EXPECT_NEAR(bold.expected_return / scale, 2, 1e-9) << scale;
  }
  // Means that hardly differ still choose the highest.
  const std::vector<double> near{0.1, 0.1 + 1e-9, 0.1};
  const auto frontier = efficient_frontier({near, kThreeVariances}, 2);
  EXPECT_NEAR(frontier.back().weights[1], 1, 1e-9);
  const Portfolio bold =
      optimise({near, kThreeVariances}, {.kind = Goal::Kind::target_risk, .value = 0.2});
  EXPECT_NEAR(bold.weights[1], 1, 1e-6);
}

TEST(Cvar, TheScaleOfTheMeansAndExcludedAssetsDoNotMatter) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 0.01);
  std::vector<double> returns(600);
  for (double& r : returns) r = normal(random);
  const CvarGoal goal{.kind = CvarGoal::Kind::target_risk, .value = 0.03};
  for (const double scale : {1.0, 1e-10, 1e-100}) {
    const std::vector<double> mean{scale, 2 * scale, 3 * scale};
    EXPECT_NEAR(optimise_cvar({mean, returns}, goal).expected_return / scale, 3, 1e-6) << scale;
    const CvarGoal back{.kind = CvarGoal::Kind::target_return, .value = 2.5 * scale};
    EXPECT_GT(optimise_cvar({mean, returns}, back).expected_return / scale, 2.5 - 1e-6) << scale;
  }
  const PortfolioLimits without_first{.lower = {0}, .upper = {0, 1, 1}};
  const std::vector<double> mean{1, 2, 3}, extreme{1e9, 2, 3};
  const double want = optimise_cvar({mean, returns}, {}, without_first).cvar;
  for (std::size_t t = 0; t < 200; ++t) returns[t] *= 1e9;
  EXPECT_NEAR(optimise_cvar({extreme, returns}, {}, without_first).cvar, want, 1e-8);
}

TEST(Portfolio, RiskParityFindsVerySmallShares) {
  for (const std::size_t n : {3u, 270u})
    for (const double small : {1e-4, 1e-8, 1e-12})
      for (const double correlation : {0.0, 0.6, 0.99}) {
        std::vector<double> covariance(n * n), shares(n, 1.0);
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j)
            covariance[i * n + j] = (i == j ? 1 : correlation) * 0.01 *
                                    (1 + static_cast<double>(i % 7)) *
                                    (1 + static_cast<double>(j % 7));
        for (std::size_t i = 0; i < n; i += 2) shares[i] = small * static_cast<double>(1 + i % 5);
        const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
        const auto found =
            optimise({{}, covariance}, {.kind = Goal::Kind::risk_parity, .shares = shares});
        const auto got = risk_shares(covariance, found.weights);
        for (std::size_t i = 0; i < n; ++i)
          EXPECT_NEAR(got[i] / (shares[i] / sum), 1, 1e-6) << n << ' ' << small << ' ' << i;
      }
}

TEST(Portfolio, TheHighestTargetReturnGivesThatAsset) {
  const RandomAssets a(8, 3);
  const auto best = std::max_element(a.mean.begin(), a.mean.end());
  const Portfolio p =
      optimise({a.mean, a.covariance}, {.kind = Goal::Kind::target_return, .value = *best});
  EXPECT_NEAR(p.weights[static_cast<std::size_t>(best - a.mean.begin())], 1, 1e-7);
  const std::vector<double> same(8, 0.07);
  const auto lowest = optimise({same, a.covariance}, {});
  EXPECT_NEAR(
      optimise({same, a.covariance}, {.kind = Goal::Kind::target_return, .value = 0.07}).volatility,
      lowest.volatility, 1e-4 * lowest.volatility);
}

}  // namespace
}  // namespace sluice::market
