#include "market/montecarlo/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/montecarlo/paths_formula.h"

namespace sluice::market {
namespace {

using formula::kPathBlock;
using formula::PathPlan;
using formula::QuasiTables;

constexpr std::uint64_t kMaxSobolPoints = std::uint64_t{1} << 31;  // of each shift

void paths_cpu(const compute::Call& call, compute::Workers& workers) {
  const auto& plan = *call.input<PathPlan>(0);
  const auto* quasi = call.in.size() > 1 ? call.input<QuasiTables>(1) : nullptr;
  auto* out = call.output<BlockSums>(0);
  // Samples between two checks for cancellation: some 100 us.
  const std::size_t look = std::clamp<std::size_t>(
      10000 / (static_cast<std::size_t>(plan.steps) * static_cast<std::size_t>(plan.assets)), 1,
      kPathBlock);
  workers.each(call.items, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      BlockSums s;
      for (std::size_t k = 0; k < kPathBlock; ++k) {
        if (k % look == 0) throw_if_cancelled();
        const auto sample =
            formula::one_sample<fast::HostMath>(plan, quasi, (call.first + i) * kPathBlock + k);
        s.x += sample.x;
        s.xx += sample.x * sample.x;
        s.c += sample.c;
        s.cc += sample.c * sample.c;
        s.xc += sample.x * sample.c;
      }
      s.count = kPathBlock;
      out[i] = s;
    }
  });
}

void validate_correlation(const PathModel& m) {
  const std::size_t n = m.assets.size();
  if (m.correlation.empty()) return;
  require(m.correlation.size() == n * n,
          "correlation must have one row and one column for each asset");
  for (std::size_t i = 0; i < n; ++i) {
    require(std::abs(m.correlation[i * n + i] - 1) < 1e-9,
            "correlation must be 1 of each asset with itself");
    for (std::size_t j = 0; j < i; ++j)
      require(std::abs(m.correlation[i * n + j] - m.correlation[j * n + i]) < 1e-9,
              "correlation is not symmetric");
  }
}

// Euler's step takes the variance beyond its mean when kappa times its length is above 1.
void validate_heston_steps(const PathModel& m) {
  const double first = m.first < 0 ? m.t / m.steps : m.first;
  const double longest = std::max(first, m.steps > 1 ? (m.t - first) / (m.steps - 1) : 0);
  require(m.heston.kappa * longest <= 1 + 1e-9,
          fmt::format("a step of {:.3g} years is too long for kappa {}: take {:.0f} steps or more "
                      "of equal length",
                      longest, m.heston.kappa, std::ceil(m.heston.kappa * m.t)));
}

void validate(const PathModel& m, const PathPayoff& p) {
  require_range("assets", static_cast<int>(m.assets.size()), 1, kMaxAssets);
  require_range("steps", m.steps, 1);
  require_range("t", m.t, 1e-9, 1000.0);
  require_range("rate", m.rate, -10.0, 10.0);
  require(m.steps > 1 ? m.first < m.t : m.first < 0 || m.first == m.t,
          "first must leave time for the other steps, and one step must end at t");
  for (const Asset& a : m.assets) {
    require_range("spot", a.spot, 1e-30, 1e30);
    require_range("vol", a.vol, 0.0, 100.0);
    require_range("div_yield", a.div_yield, -10.0, 10.0);
  }
  require_range("strike", p.strike, 0.0, 1e30);
  if (p.payoff == Payoff::barrier) require_range("level", p.level, 1e-30, 1e30);
  require_range("rebate", p.rebate, -1e30, 1e30);
  require_range("extreme", p.extreme, 0.0, 1e30);
  for (const double weight : p.weights) require_range("a weight", weight, -1e30, 1e30);
  validate_correlation(m);
  if (!m.stochastic_volatility) return;
  require(m.assets.size() == 1, "stochastic volatility is for one asset");
  require_range("v0", m.heston.v0, 0.0, 100.0);
  require_range("kappa", m.heston.kappa, 0.0, 1000.0);
  require_range("theta", m.heston.theta, 0.0, 100.0);
  require_range("sigma", m.heston.sigma, 0.0, 100.0);
  require_range("rho", m.heston.rho, -1.0, 1.0);
  validate_heston_steps(m);
}

void correlation_root(const PathModel& m, double* root) {
  const std::size_t n = m.assets.size();
  const auto at = [&](std::size_t r, std::size_t c) -> double& {
    return root[r * (r + 1) / 2 + c];
  };
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t c = 0; c <= r; ++c) {
      double sum = m.correlation.empty() ? (r == c ? 1 : 0) : m.correlation[r * n + c];
      for (std::size_t k = 0; k < c; ++k) sum -= at(r, k) * at(c, k);
      require(r != c || sum > 0, "correlation is not positive definite");
      at(r, c) = r == c ? std::sqrt(sum) : sum / at(c, c);
    }
}

PathPlan make_plan(const PathModel& m, const PathPayoff& p, const SimulationOptions& s) {
  PathPlan plan{};
  plan.payoff = p.payoff;
  plan.barrier = p.barrier;
  plan.antithetic = s.antithetic;
  plan.continuous = p.continuous;
  plan.heston_model = m.stochastic_volatility;
  plan.assets = static_cast<int>(m.assets.size());
  plan.steps = m.steps;
  plan.seed = s.seed;
  plan.w = p.kind == OptionKind::call ? 1 : -1;
  plan.strike = p.strike;
  plan.level = p.level;
  plan.rebate = p.rebate;
  plan.rate = m.rate;
  plan.t = m.t;
  plan.first_dt = m.first < 0 ? m.t / m.steps : m.first;
  plan.dt = m.steps > 1 ? (m.t - plan.first_dt) / (m.steps - 1) : 1;
  plan.first_share = plan.first_dt / plan.dt;
  plan.first_root = std::sqrt(plan.first_share);
  plan.extreme = p.extreme > 0 ? std::log(p.extreme / m.assets[0].spot) : 0;
  for (std::size_t a = 0; a < m.assets.size(); ++a) {
    const Asset& asset = m.assets[a];
    plan.spot[a] = asset.spot;
    plan.drift[a] = (m.rate - asset.div_yield - 0.5 * asset.vol * asset.vol) * plan.dt;
    plan.vol[a] = asset.vol * std::sqrt(plan.dt);
    plan.weight[a] = p.payoff == Payoff::basket              ? p.weights[a]
                     : p.payoff == Payoff::best_of || a == 0 ? 1
                                                             : 0;
  }
  correlation_root(m, plan.root);
  plan.heston = m.heston;
  plan.yield = m.assets[0].div_yield;
  return plan;
}

// Breadth first over the steps: the end, the middle, the quarters.
void bridge(QuasiTables& q, const std::vector<double>& t) {
  const int steps = static_cast<int>(t.size()) - 1;
  const auto time = [&](int k) { return t[static_cast<std::size_t>(k)]; };
  std::vector<std::pair<int, int>> open{{0, steps}};
  q.at[0] = steps;
  q.spread[0] = std::sqrt(time(steps));
  int j = 1;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto [left, right] = open[i];
    if (right - left < 2) continue;
    const int middle = (left + right) / 2;
    const double span = time(right) - time(left), before = time(middle) - time(left);
    q.at[j] = middle;
    q.left[j] = left;
    q.right[j] = right;
    q.from_left[j] = span > 0 ? 1 - before / span : 1;
    q.from_right[j] = span > 0 ? before / span : 0;
    q.spread[j] = span > 0 ? std::sqrt(before * (span - before) / span) : 0;
    ++j;
    open.emplace_back(left, middle);
    open.emplace_back(middle, right);
  }
}

std::unique_ptr<QuasiTables> quasi_tables(const PathPlan& plan, std::uint64_t per_shift) {
  auto q = std::make_unique<QuasiTables>();
  q->factors = plan.heston_model != 0 ? 2 : plan.assets;
  require(plan.steps * q->factors <= kSobolDimensions,
          "Sobol's sequence here has 256 dimensions: steps times assets may be no more");
  q->directions = sobol_directions();
  q->per_shift = static_cast<std::uint32_t>(per_shift);  // fits: simulate() requires it
  std::vector<double> t{0, plan.first_dt};
  for (int k = 1; k < plan.steps; ++k) t.push_back(t.back() + plan.dt);
  for (int k = 0; k < plan.steps; ++k) {
    const double length = k == 0 ? plan.first_dt : plan.dt;
    q->per_root[k] = length > 0 ? 1 / std::sqrt(length) : 0;
  }
  bridge(*q, t);
  return q;
}

// Exact mean of the control: each discounted price is a martingale but for its dividends.
double control_mean(const PathModel& m, const PathPlan& plan) {
  double sum = 0;
  for (std::size_t a = 0; a < m.assets.size(); ++a)
    sum += plan.weight[a] * m.assets[a].spot * std::exp(-m.assets[a].div_yield * m.t);
  return sum;
}

}  // namespace

std::uint64_t simulated_paths(const SimulationOptions& s) {
  const std::uint64_t per_block = kPathBlock * (s.antithetic ? 2 : 1);
  const std::uint64_t blocks = (s.paths + per_block - 1) / per_block;
  if (!s.sobol) return blocks * per_block;
  // Blocks of power-of-two length of the sequence fill the cube evenly.
  return std::bit_ceil((blocks + kSobolShifts - 1) / kSobolShifts) * kSobolShifts * per_block;
}

const compute::Operation& paths_operation() {
  static const compute::Operation o{"paths", paths_cpu, gpu_operations().paths};
  return o;
}

Estimate simulate(compute::Compute& compute, const PathModel& model, const PathPayoff& payoff,
                  const SimulationOptions& simulation, compute::DevicePreference device) {
  validate(model, payoff);
  require_range("paths", static_cast<double>(simulation.paths), 1.0, 1e12);
  PathPlan plan = make_plan(model, payoff, simulation);
  const std::uint64_t each = simulation.antithetic ? 2 : 1, per_block = kPathBlock * each;
  const std::uint64_t count = simulated_paths(simulation) / per_block;
  require(!simulation.sobol || count / kSobolShifts * kPathBlock <= kMaxSobolPoints,
          fmt::format("Sobol's sequence here has 2^31 points: paths may be {} at most",
                      kMaxSobolPoints * kSobolShifts * each));
  std::vector<BlockSums> blocks(count);
  std::unique_ptr<QuasiTables> quasi;
  if (simulation.sobol) quasi = quasi_tables(plan, blocks.size() / kSobolShifts * kPathBlock);
  compute::Call call{.in = {{.data = &plan, .item_bytes = 0, .shared_bytes = sizeof plan}},
                     .out = {{.data = blocks.data(), .item_bytes = sizeof(BlockSums)}},
                     .items = blocks.size(),
                     .work = static_cast<double>(per_block) * model.steps * plan.assets};
  if (quasi)
    call.in.push_back({.data = quasi.get(), .item_bytes = 0, .shared_bytes = sizeof *quasi});
  compute::Outcome outcome = compute.run(paths_operation(), call, device);
  Estimate found = estimate(blocks, 1, control_mean(model, plan), simulation.control_variate,
                            static_cast<int>(each), simulation.sobol ? kSobolShifts : 0);
  found.outcome = std::move(outcome);
  return found;
}

}  // namespace sluice::market
