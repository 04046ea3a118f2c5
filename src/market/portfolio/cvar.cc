#include "market/portfolio/cvar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "market/math/dense.h"
#include "market/portfolio/limits.h"

namespace sluice::market {
namespace {

constexpr double kGap = 1e-6;  // of the size of the returns

class CuttingPlanes {
 public:
  CuttingPlanes(const Scenarios& s, const CvarGoal& goal, const LimitRows& limits, FreeAssets free,
                std::size_t n)
      : s_(s),
        goal_(goal),
        free_(std::move(free)),
        n_(n),
        count_(s.returns.size() / n),
        loss_(limits.variables) {
    const std::size_t wide = limits.variables + 1;
    qp_ = {std::vector<double>(wide * wide, 0.0), std::vector<double>(wide, 0.0), limits.rows};
    // Losses are counted in units of a usual one, so that all variables are of one size.
    double squares = 0;
    for (std::size_t i = 0; i < n_; ++i)
      if (!free_.excluded[i]) squares += dot(returns_of(i), returns_of(i));
    unit_ = std::max(std::sqrt(squares / static_cast<double>(s.returns.size())), 1e-12);
    // The term is so small that it only decides between equally good portfolios.
    for (std::size_t i = 0; i < n_; ++i) qp_.p[i * wide + i] = 1e-9;
    qp_.rows.push_back({{{loss_, 1.0}}, -1e3, 1e3, ""});
    if (goal.kind == CvarGoal::Kind::target_risk) {
      const std::vector<double> rewards = rewards_of(s.mean, free_);
      for (std::size_t i = 0; i < n_ && free_.spread > 0; ++i)
        qp_.q[i] = -rewards[i] / free_.spread;
      qp_.rows.push_back({{{loss_, 1.0}},
                          -kNoLimit,
                          goal.value / unit_,
                          fmt::format("the CVaR is at most {}", goal.value)});
    } else {
      qp_.q[loss_] = 1;
    }
    if (goal.kind == CvarGoal::Kind::target_return) {
      std::vector<double> mean(s.mean.begin(), s.mean.end());
      for (std::size_t i = 0; i < n_; ++i) mean[i] = free_.excluded[i] ? 0 : mean[i];
      qp_.rows.push_back(
          return_row(mean, goal.value, fmt::format("the return is at least {}", goal.value)));
    }
  }

  CvarPortfolio run() {
    CvarPortfolio out;
    out.weights.assign(n_, 1.0 / static_cast<double>(n_));
    add_cut(out.weights);
    bool close = false;
    for (out.cuts = 1; !close; ++out.cuts) {
      require(out.cuts < goal_.max_cuts,
              fmt::format("the minimum CVaR is not found: {} cuts are too few for these scenarios; "
                          "ask for fewer assets or scenarios",
                          goal_.max_cuts));
      const auto x = solve(qp_).x;
      out.weights.assign(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n_));
      out.cvar = add_cut(out.weights);
      close = out.cvar <= (x[loss_] + kGap) * unit_;
    }
    for (std::size_t i = 0; i < n_; ++i)
      if (free_.excluded[i]) out.weights[i] = 0;
    require(std::isfinite(std::accumulate(out.weights.begin(), out.weights.end(), out.cvar)),
            "the weights are not finite: the limits or the returns are too large");
    if (!s_.mean.empty()) out.expected_return = dot(s_.mean, out.weights);
    return out;
  }

 private:
  std::span<const double> returns_of(std::size_t i) const {
    return s_.returns.subspan(i * count_, count_);
  }

  // Returns the CVaR of the weights and bounds that of all others by its tangent there.
  double add_cut(const std::vector<double>& w) {
    std::vector<double> losses(count_, 0.0), share;
    for (std::size_t i = 0; i < n_; ++i) {
      if (free_.excluded[i]) continue;
      for (std::size_t t = 0; t < count_; ++t) losses[t] -= w[i] * s_.returns[i * count_ + t];
    }
    const double cvar = cvar_of(losses, goal_.beta, &share);
    QpRow cut{{{loss_, 1.0}}, 0, kNoLimit, ""};
    for (std::size_t i = 0; i < n_; ++i)
      cut.terms.emplace_back(i, free_.excluded[i] ? 0 : dot(returns_of(i), share) / unit_);
    qp_.rows.push_back(std::move(cut));
    return cvar;
  }

  const Scenarios& s_;
  const CvarGoal& goal_;
  FreeAssets free_;
  std::size_t n_, count_, loss_;
  double unit_ = 1;
  QpProblem qp_;
};

}  // namespace

double cvar_of(std::span<const double> losses, double beta, std::vector<double>* weights) {
  const double worst = (1 - beta) * static_cast<double>(losses.size());
  std::vector<std::size_t> order(losses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(
                                       static_cast<std::size_t>(worst) + 1, losses.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return losses[a] != losses[b] ? losses[a] > losses[b] : a < b;
  });
  if (weights != nullptr) weights->assign(losses.size(), 0.0);
  double sum = 0, left = worst;
  for (auto i = order.begin(); i != end; ++i) {
    const double part = std::min(left, 1.0) / worst;
    left -= 1;
    sum += part * losses[*i];
    if (weights != nullptr) (*weights)[*i] = part;
    if (left <= 0) break;
  }
  return sum;
}

// This was measured: cuts grow with the assets, and with the scenarios, since their tail has more
// choices.
double expected_cuts(double assets, double scenarios) {
  return std::min<double>(CvarGoal{}.max_cuts,
                          45 * std::pow(assets, 0.45) * std::sqrt(std::max(scenarios, 25.0) / 250));
}

CvarPortfolio optimise_cvar(const Scenarios& scenarios, const CvarGoal& goal,
                            const PortfolioLimits& limits) {
  const std::size_t n = !scenarios.mean.empty()
                            ? scenarios.mean.size()
                            : std::max(scenarios.names.size(), limits.lower.size());
  require(n > 0 && !scenarios.returns.empty() && scenarios.returns.size() % n == 0,
          fmt::format("{} returns are no scenarios of {} assets", scenarios.returns.size(), n));
  require(scenarios.names.empty() || scenarios.names.size() == n,
          fmt::format("{} names for {} assets", scenarios.names.size(), n));
  require(goal.kind == CvarGoal::Kind::min_cvar || !scenarios.mean.empty(),
          "this goal needs mean returns");
  require(goal.beta > 0 && goal.beta < 1, fmt::format("beta is {}; it may be 0 to 1", goal.beta));
  for (const auto values : {scenarios.mean, scenarios.returns})
    for (const double v : values) require(std::isfinite(v), "a return is not finite");
  const LimitRows rows = limit_rows(n, scenarios.names, limits);
  return CuttingPlanes(scenarios, goal, rows, free_assets(n, scenarios.mean, limits), n).run();
}

}  // namespace sluice::market
