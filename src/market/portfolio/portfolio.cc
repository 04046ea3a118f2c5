#include "market/portfolio/portfolio.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/math/dense.h"
#include "market/portfolio/limits.h"
#include "market/portfolio/risk_parity.h"

namespace sluice::market {
namespace {

using Vector = std::vector<double>;

constexpr double kSameVariance = 1e-10;  // fraction of a variance that rounding may add

// One portfolio problem: the limits as rows, and the objectives over them.
class Markowitz {
 public:
  Markowitz(const Assets& assets, const PortfolioLimits& limits)
      : l2_(limits.l2),
        sum_(limits.sum),
        n_(side(assets.covariance)),
        rows_(limit_rows(n_, assets.names, limits)),
        free_(free_assets(n_, assets.mean, limits)),
        mean_(assets.mean.begin(), assets.mean.end()),
        rewards_(rewards_of(assets.mean, free_)),
        covariance_(assets.covariance.begin(), assets.covariance.end()) {
    require(std::isfinite(limits.l2) && limits.l2 >= 0, "l2 must be 0 or more");
    leave_out_excluded();
  }

  // Minimises (risk w'Cw) / 2 + l2 w'w - reward mean'w.
  Vector minimise(double risk, double reward, double l2) const {
    return first(solve(program(rows_, risk, reward, l2)).x);
  }

  Vector min_volatility() const { return minimise(2, 0, l2_); }

  Vector target_return(double target) const {
    QpProblem qp = program(rows_, 2, 0, l2_);
    qp.rows.push_back(return_row(mean_, target, fmt::format("the return is at least {}", target)));
    if (const auto found = try_solve(qp)) return first(found->x);
    // A target equal to the highest return leaves the solver no interior.
    Vector best = max_return();
    const double size = std::max(std::abs(free_.middle) + free_.spread, std::abs(target));
    if (dot(mean_, best) < target - 1e-9 * size) throw_infeasible(qp);
    return best;
  }

  // With w = y / scale and the return of y above the risk-free one set to 1, the best
  // ratio is the lowest variance of y.
  Vector max_sharpe(double risk_free) const {
    require(sum_ != 0, "the best Sharpe ratio needs weights whose sum is not 0");
    QpProblem qp = program(scaled(rows_), 2, 0, l2_);
    Vector excess = mean_;
    for (std::size_t i = 0; i < n_; ++i) excess[i] -= free_.excluded[i] ? 0 : risk_free;
    QpRow row =
        return_row(excess, 0, fmt::format("the return is above the risk-free {}", risk_free));
    row.lower = row.upper = 1;
    qp.rows.push_back(std::move(row));
    const auto found = try_solve(qp);
    if (!found) {
      throw_no_ratio(risk_free);
      throw_infeasible(qp);
    }
    const Vector& x = found->x;
    const double scale = x[rows_.variables];
    if (!(scale > 1e-12)) throw_no_ratio(risk_free);
    require(scale > 1e-12, "the best Sharpe ratio has no bound: a portfolio has no variance");
    Vector w = first(x);
    for (double& v : w) v /= scale;
    return w;
  }

  // Returns the portfolio with the highest return; of several the one with the lowest variance.
  Vector max_return() const {
    const double unit = free_.spread > 0 ? free_.spread : 1;  // of the means
    return minimise(1e-9 / variance_scale(), 1 / unit, l2_ / unit);
  }

  // Least variance / 2 - reward * return has a variance that grows with the reward, and
  // between changes of the active limits as a + b reward^2: regula falsi on that. Where it
  // jumps, since at one reward several portfolios are best, a convex combination of two is needed.
  Vector target_risk(double target) const {
    require(target > 0, fmt::format("the target risk is {}; it must be above 0", target));
    const double target_variance = target * target;
    RewardPoint low{0, minimise(1, 0, 0), 0}, high{};
    const double rounding = kSameVariance * target_variance;
    low.excess = variance(low.weights) - target_variance;
    if (low.excess > rounding)
      throw Error(
          Code::invalid_argument,
          fmt::format("no portfolio within the limits has a volatility of {}; the lowest is {}",
                      target, std::sqrt(variance(low.weights))));
    if (free_.spread == 0 && l2_ == 0) return low.weights;  // all have the same return
    const double unit =
        variance_scale() / std::max(free_.spread, 1e-300);  // of a reward that matters
    for (double reward = 1e-3 * unit * variance_ratio();; reward *= 4) {
      high = at_reward(reward, target_variance);
      if (high.excess > rounding || reward > 1e4 * unit) break;
      low = high;
    }
    if (high.excess <= rounding) {  // then even the highest return is less risky, or nearly as good
      low = std::move(high);
      high = {low.reward, max_return(), 0};
      high.excess = variance(high.weights) - target_variance;
      return high.excess <= rounding ? std::move(high.weights) : mixed(low, high);
    }
    return between(std::move(low), std::move(high), target_variance);
  }

  Portfolio described(Vector weights, double risk_free) const {
    Portfolio out;
    out.expected_return =
        mean_.empty() ? std::numeric_limits<double>::quiet_NaN() : dot(mean_, weights);
    out.volatility = std::sqrt(variance(weights));
    require(std::isfinite(std::accumulate(weights.begin(), weights.end(), out.volatility)),
            "the weights are not finite: the limits or the variances are too large");
    out.sharpe = (out.expected_return - risk_free) / out.volatility;
    out.weights = std::move(weights);
    return out;
  }

  double variance(const Vector& w) const {
    double sum = 0;
    for (std::size_t i = 0; i < n_; ++i) sum += w[i] * dot(row_of(i), w);
    return std::max(sum, 0.0);  // of a singular covariance rounding may leave less
  }

 private:
  static std::size_t side(std::span<const double> matrix) {
    return static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(matrix.size()))));
  }

  // In multiples of the weights every limit takes part in a conflict. So the plain limits are
  // checked, then the highest return. Returns when neither is the cause.
  void throw_no_ratio(double risk_free) const {
    const auto names = infeasible_rows(program(rows_, 0, 0, 0));
    require(names.empty(), fmt::format("no portfolio fulfils all of: {}", fmt::join(names, "; ")));
    const double highest = dot(mean_, max_return());
    require(highest > risk_free,
            fmt::format("no portfolio within the limits has a return above the risk-free {}; the "
                        "highest is {}",
                        risk_free, highest));
  }

  // An asset whose weight is 0 must not set the scale of the others.
  void leave_out_excluded() {
    double largest = 0;
    for (std::size_t i = 0; i < n_; ++i)
      if (!free_.excluded[i]) largest = std::max(largest, covariance_[i * n_ + i]);
    for (std::size_t i = 0; i < n_; ++i) {
      if (!free_.excluded[i]) continue;
      if (!mean_.empty()) mean_[i] = 0;
      for (std::size_t j = 0; j < n_; ++j) covariance_[i * n_ + j] = covariance_[j * n_ + i] = 0;
      covariance_[i * n_ + i] = largest;
    }
  }

  std::span<const double> row_of(std::size_t i) const {
    return std::span(covariance_).subspan(i * n_, n_);
  }

  double variance_scale() const {
    double largest = 1e-300;
    for (std::size_t i = 0; i < n_; ++i) largest = std::max(largest, covariance_[i * n_ + i]);
    return largest;
  }

  // 1, or less where variances differ so much that rewards matter which are small beside the
  // largest.
  double variance_ratio() const {
    const double largest = variance_scale();
    double least = largest;
    for (std::size_t i = 0; i < n_; ++i)
      if (covariance_[i * n_ + i] > 0) least = std::min(least, covariance_[i * n_ + i]);
    return std::min(1.0, 1e4 * (least / largest));
  }

  // The best portfolio for a reward, and how far its variance is from the target.
  struct RewardPoint {
    double reward = 0;
    Vector weights{};
    double excess = 0;
  };

  RewardPoint at_reward(double reward, double target_variance) const {
    RewardPoint point{reward, minimise(1, reward, reward * l2_), 0};
    point.excess = variance(point.weights) - target_variance;
    return point;
  }

  // Needs low.excess <= 0 <= high.excess. The side that stays twice counts half (the Illinois
  // rule), so that the other one does not creep.
  Vector between(RewardPoint low, RewardPoint high, double target_variance) const {
    double below = low.excess, above = high.excess;
    int last = 0;
    for (int i = 0; i < 60; ++i) {
      const double a = low.reward * low.reward, b = high.reward * high.reward;
      if (b - a <= 1e-15 * b || above - below <= 1e-13 * target_variance) break;
      RewardPoint next =
          at_reward(std::sqrt(b - above * (b - a) / (above - below)), target_variance);
      if (std::abs(next.excess) <= 1e-13 * target_variance) return next.weights;
      if (next.excess > 0) {
        high = std::move(next), above = high.excess;
        if (last > 0) below /= 2;
        last = 1;
      } else {
        low = std::move(next), below = low.excess;
        if (last < 0) above /= 2;
        last = -1;
      }
    }
    return mixed(low, high);
  }

  // The convex combination of both with the target variance.
  Vector mixed(const RewardPoint& low, const RewardPoint& high) const {
    Vector difference(n_), w = low.weights;
    for (std::size_t i = 0; i < n_; ++i) difference[i] = high.weights[i] - low.weights[i];
    const double start = low.excess, square = variance(difference);
    const double linear = high.excess - low.excess - square;
    const double root = std::sqrt(std::max(linear * linear - 4 * square * start, 0.0));
    const double sum = linear + root, part = sum > 0 ? std::clamp(-2 * start / sum, 0.0, 1.0) : 0;
    for (std::size_t i = 0; i < n_; ++i) w[i] += part * difference[i];
    return w;
  }

  QpProblem program(const LimitRows& limits, double risk, double reward, double l2) const {
    const std::size_t wide = limits.variables;
    QpProblem qp{Vector(wide * wide, 0.0), Vector(wide, 0.0), limits.rows};
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j)
        qp.p[i * wide + j] = risk / 2 * (covariance_[i * n_ + j] + covariance_[j * n_ + i]);
      qp.p[i * wide + i] += 2 * l2;
      if (reward != 0) qp.q[i] = -reward * rewards_[i];
    }
    return qp;
  }

  Vector first(const Vector& x) const {
    return {x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n_)};
  }

  double l2_, sum_;
  std::size_t n_;
  LimitRows rows_;
  FreeAssets free_;
  Vector mean_, rewards_, covariance_;
};

// Rounding and a covariance of pairs with gaps leave a little; more is no covariance, and its
// "optimum" would be a portfolio of negative variance.
constexpr double kAsymmetry = 1e-9, kNegative = 1e-7;  // of the largest variance

void check_covariance(std::span<const double> covariance, std::size_t n) {
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      require(std::isfinite(covariance[i * n + j]),
              "the covariance has a value that is not finite");
    largest = std::max(largest, covariance[i * n + i]);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      require(std::abs(covariance[i * n + j] - covariance[j * n + i]) <= kAsymmetry * largest,
              "the covariance is not symmetric");
  Vector raised(covariance.begin(), covariance.end());
  for (std::size_t i = 0; i < n; ++i)
    raised[i * n + i] += std::max(kNegative * largest, std::numeric_limits<double>::min());
  require(cholesky(raised, n, 0, 1) == 0,
          "the covariance is none: some portfolio has a negative variance (are there too few "
          "returns that all assets have? ledoit_wolf helps)");
}

// Risk parity: the weights are above 0 and sum to 1, and no other limits are possible.
void check_no_limits(const PortfolioLimits& limits) {
  const auto all_at = [](const Vector& side, double usual) {
    return std::ranges::all_of(side, [&](double v) { return v == usual; });
  };
  const PortfolioLimits usual;
  require(all_at(limits.lower, usual.lower[0]) && all_at(limits.upper, usual.upper[0]) &&
              limits.sum == usual.sum && limits.sectors.empty() && !limits.turnover &&
              !limits.leverage && limits.l2 == 0,
          "risk parity takes no limits: its weights are above 0 and sum to 1");
}

void check(const Assets& assets, const Goal& goal) {
  const auto n = static_cast<std::size_t>(
      std::llround(std::sqrt(static_cast<double>(assets.covariance.size()))));
  require(n > 0 && n * n == assets.covariance.size(), "the covariance is not a square matrix");
  check_covariance(assets.covariance, n);
  const bool needs_mean =
      goal.kind != Goal::Kind::min_volatility && goal.kind != Goal::Kind::risk_parity;
  require(assets.mean.size() == n || (assets.mean.empty() && !needs_mean),
          fmt::format("{} mean returns for {} assets", assets.mean.size(), n));
  require(assets.names.empty() || assets.names.size() == n,
          fmt::format("{} names for {} assets", assets.names.size(), n));
  for (const double v : assets.mean) require(std::isfinite(v), "a mean return is not finite");
}

}  // namespace

Portfolio optimise(const Assets& assets, const Goal& goal, const PortfolioLimits& limits) {
  check(assets, goal);
  const Markowitz problem(assets, limits);
  const auto weights = [&]() -> Vector {
    switch (goal.kind) {
      case Goal::Kind::min_volatility: return problem.min_volatility();
      case Goal::Kind::max_sharpe: return problem.max_sharpe(goal.risk_free);
      case Goal::Kind::target_return: return problem.target_return(goal.value);
      case Goal::Kind::target_risk: return problem.target_risk(goal.value);
      case Goal::Kind::max_quadratic_utility: {
        require(goal.value > 0, "the risk aversion must be above 0");
        return problem.minimise(goal.value, 1, limits.l2);
      }
      case Goal::Kind::risk_parity: {
        check_no_limits(limits);
        return risk_parity(assets.covariance, assets.names, goal.shares);
      }
    }
    return {};
  };
  return problem.described(weights(), goal.risk_free);
}

std::vector<Portfolio> efficient_frontier(const Assets& assets, std::size_t points,
                                          const PortfolioLimits& limits, double risk_free) {
  require(points >= 2, "a frontier has two points or more");
  check(assets, {.kind = Goal::Kind::max_sharpe});
  const Markowitz problem(assets, limits);
  std::vector<Portfolio> out;
  out.push_back(problem.described(problem.min_volatility(), risk_free));
  const Portfolio last = problem.described(problem.max_return(), risk_free);
  const double step =
      (last.expected_return - out[0].expected_return) / static_cast<double>(points - 1);
  for (std::size_t i = 1; i + 1 < points; ++i) {
    throw_if_cancelled();
    out.push_back(problem.described(
        problem.target_return(out[0].expected_return + step * static_cast<double>(i)), risk_free));
  }
  out.push_back(last);
  return out;
}

std::vector<PortfolioResult> optimise_all(compute::Workers& workers,
                                          std::span<const PortfolioTask> tasks) {
  std::vector<PortfolioResult> out(tasks.size());
  const PortfolioLimits usual;
  workers.each(tasks.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const PortfolioTask& task = tasks[i];
      try {
        out[i].portfolio =
            optimise(task.assets, task.goal, task.limits != nullptr ? *task.limits : usual);
      } catch (const Error& e) {
        out[i].error = e.reason();
      }
    }
  });
  return out;
}

}  // namespace sluice::market
