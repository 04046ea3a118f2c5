// One path, on CPU and GPU.
#pragma once

#include <cmath>

#include "market/math/normal.h"
#include "market/math/philox.h"
#include "market/math/sobol.h"
#include "market/montecarlo/paths.h"

namespace sluice::market::formula {

inline constexpr std::size_t kPathBlock = 1024;  // samples an item

// The arguments of simulate() in the form that a path needs, without heap memory.
struct PathPlan {
  Payoff payoff;
  Barrier barrier;
  int antithetic, continuous, heston_model;
  int assets, steps;
  std::uint64_t seed;
  double w, strike, level, rebate, rate, t;
  double dt, first_dt, first_share, first_root;                 // first_dt / dt and its root
  double extreme;                                               // log of it over spot
  double spot[kMaxAssets], drift[kMaxAssets], vol[kMaxAssets];  // a step's, of the log
  double weight[kMaxAssets];
  double root[kMaxAssets * (kMaxAssets + 1) / 2];  // Cholesky, rows of the lower half
  Heston heston;
  double yield;
};

// Tables that turn Sobol points into paths. The most important coordinates fix the end, then the
// middle, then the quarters (a Brownian bridge), so that few coordinates hold most of the
// variance. Point j sets W[at] = from_left W[left] + from_right W[right] + spread z.
struct QuasiTables {
  SobolDirections directions;
  int at[kSobolDimensions], left[kSobolDimensions], right[kSobolDimensions];
  double from_left[kSobolDimensions], from_right[kSobolDimensions], spread[kSobolDimensions];
  double per_root[kSobolDimensions];  // 1 / sqrt(length) of step k; 0 where that is 0
  int factors;                        // normals a step
  std::uint32_t per_shift;            // points of the sequence before the next random shift
};

// The normals of `path` in the order of the steps, into z.
template <class M>
SLUICE_HD void quasi_normals(const QuasiTables& q, std::uint64_t seed, std::uint64_t path,
                             int steps, double sign, double* z) {
  const auto number = static_cast<std::uint32_t>(path % q.per_shift);
  double w[kSobolDimensions + 1];
  for (int f = 0; f < q.factors; ++f) {
    w[0] = 0;
    for (int j = 0; j < steps; ++j) {
      const int d = j * q.factors + f;
      const auto shift =
          philox::random(philox::counter(path / q.per_shift, static_cast<std::uint32_t>(d), 3),
                         philox::key_of(seed));
      const double u = (sobol(q.directions.at[d], number, shift.x0) + 0.5) * 0x1p-32;
      w[q.at[j]] = q.from_left[j] * w[q.left[j]] + q.from_right[j] * w[q.right[j]] +
                   q.spread[j] * sign * normal_quantile<M>(u);
    }
    for (int k = 0; k < steps; ++k) z[k * q.factors + f] = (w[k + 1] - w[k]) * q.per_root[k];
  }
}

// Normals of a path in order: given ones, or of two words each; the antithetic path has the
// signs flipped.
class PathNormals {
 public:
  SLUICE_HD PathNormals(std::uint64_t seed, std::uint64_t path, double sign, const double* given)
      : key_(philox::key_of(seed)), path_(path), sign_(sign), given_(given) {}

  SLUICE_HD double next() {
    if (given_ != nullptr) return *given_++;
    if (has_) {
      has_ = false;
      return kept_;
    }
    const auto w = philox::random(philox::counter(path_, block_++, 1), key_);
    const double u = (w.x0 + (w.x1 >> 11) * 0x1p-21 + 0x1p-22) * 0x1p-32;
    const double angle = 6.283185307179586 * ((w.x2 + (w.x3 >> 11) * 0x1p-21) * 0x1p-32);
    const double radius = sign_ * std::sqrt(-2 * std::log(u));
    kept_ = radius * std::sin(angle);
    has_ = true;
    return radius * std::cos(angle);
  }
  // Uniform on (0, 1), from a separate stream; the antithetic path uses the same number.
  SLUICE_HD double uniform(std::uint32_t step) const {
    const auto w = philox::random(philox::counter(path_, step, 2), key_);
    return (w.x0 + (w.x1 >> 11) * 0x1p-21 + 0x1p-22) * 0x1p-32;
  }

 private:
  philox::Key key_;
  std::uint64_t path_;
  double sign_, kept_ = 0;
  const double* given_;
  std::uint32_t block_ = 0;
  bool has_ = false;
};

struct PathSample {
  double x, c;  // discounted payoff, control
};

// The state of a path after a step.
struct PathState {
  double log_price[kMaxAssets];  // over spot
  double variance;               // Heston's
  double sum = 0, low = 0, high = 0;
  double hit = -1;  // when the barrier was; negative: not yet
};

SLUICE_HD inline void step_assets(const PathPlan& p, bool first, PathNormals& normals,
                                  PathState& s) {
  const double dt = first ? p.first_dt : p.dt;
  if (p.heston_model != 0) {
    const double z1 = normals.next(), z2 = normals.next(), v = s.variance > 0 ? s.variance : 0;
    const double root = std::sqrt(v * dt), rho = p.heston.rho;
    s.log_price[0] += (p.rate - p.yield - 0.5 * v) * dt + root * z1;
    s.variance += p.heston.kappa * (p.heston.theta - v) * dt +
                  p.heston.sigma * root * (rho * z1 + std::sqrt(1 - rho * rho) * z2);
    return;
  }
  double z[kMaxAssets];
  for (int a = 0; a < p.assets; ++a) z[a] = normals.next();
  for (int a = 0, row = 0; a < p.assets; row += ++a) {
    double mixed = 0;
    for (int k = 0; k <= a; ++k) mixed += p.root[row + k] * z[k];
    s.log_price[a] += first ? p.first_share * p.drift[a] + p.first_root * p.vol[a] * mixed
                            : p.drift[a] + p.vol[a] * mixed;
  }
}

// The lowest (highest) log price between two ends a and b, given a uniform number: a draw
// from the law of a Brownian bridge's extreme.
SLUICE_HD inline double bridge_extreme(double a, double b, double variance, double u, bool high) {
  const double width = std::sqrt((b - a) * (b - a) - 2 * variance * std::log(u));
  return 0.5 * (a + b + (high ? width : -width));
}

SLUICE_HD inline void watch(const PathPlan& p, const PathNormals& normals, int step, double before,
                            double variance, PathState& s) {
  const double now = s.log_price[0];
  double low = now, high = now;
  const bool up = p.payoff == Payoff::barrier
                      ? p.barrier == Barrier::up_and_out || p.barrier == Barrier::up_and_in
                      : (p.payoff == Payoff::lookback_fixed) == (p.w > 0);
  if (p.continuous != 0) {
    const double extreme = bridge_extreme(before, now, variance,
                                          normals.uniform(static_cast<std::uint32_t>(step)), up);
    (up ? high : low) = extreme;
  }
  s.low = low < s.low ? low : s.low;
  s.high = high > s.high ? high : s.high;
  if (p.payoff != Payoff::barrier || s.hit >= 0) return;
  const double level = std::log(p.level / p.spot[0]);
  if (up ? s.high >= level : s.low <= level)  // within the step, its middle
    s.hit = step == 0 ? (p.continuous != 0 ? 0.5 : 1) * p.first_dt
                      : p.first_dt + (step - (p.continuous != 0 ? 0.5 : 0)) * p.dt;
}

SLUICE_HD inline double positive(double x) { return x > 0 ? x : 0; }

SLUICE_HD inline double barrier_payoff(const PathPlan& p, const PathState& s, double last,
                                       double discount) {
  const bool out = p.barrier == Barrier::down_and_out || p.barrier == Barrier::up_and_out;
  const double paid = discount * positive(p.w * (last - p.strike));
  if (out) return s.hit < 0 ? paid : p.rebate * std::exp(-p.rate * s.hit);
  return s.hit < 0 ? p.rebate * discount : paid;
}

SLUICE_HD inline PathSample settle(const PathPlan& p, const PathState& s) {
  const double discount = std::exp(-p.rate * p.t);
  const double last = p.spot[0] * std::exp(s.log_price[0]), mean = s.sum / p.steps;
  const double low = p.spot[0] * std::exp(s.low), high = p.spot[0] * std::exp(s.high);
  double total = 0, best = 0;
  for (int a = 0; a < p.assets; ++a) {
    const double price = p.spot[a] * std::exp(s.log_price[a]);
    total += p.weight[a] * price;
    best = price > best ? price : best;
  }
  const double control = discount * total;
  switch (p.payoff) {
    case Payoff::european: return {discount * positive(p.w * (last - p.strike)), control};
    case Payoff::asian_price: return {discount * positive(p.w * (mean - p.strike)), control};
    case Payoff::asian_strike: return {discount * positive(p.w * (last - mean)), control};
    case Payoff::barrier: return {barrier_payoff(p, s, last, discount), control};
    case Payoff::lookback_fixed:
      return {discount * positive(p.w > 0 ? high - p.strike : p.strike - low), control};
    case Payoff::lookback_floating:
      return {discount * (p.w > 0 ? last - low : high - last), control};
    case Payoff::basket: return {discount * positive(p.w * (total - p.strike)), control};
    case Payoff::best_of: return {discount * positive(p.w * (best - p.strike)), control};
  }
  return {0, 0};
}

template <class M>
SLUICE_HD PathSample one_path(const PathPlan& p, const QuasiTables* quasi, std::uint64_t path,
                              double sign) {
  double z[kSobolDimensions];
  if (quasi != nullptr) quasi_normals<M>(*quasi, p.seed, path, p.steps, sign, z);
  PathNormals normals(p.seed, path, sign, quasi != nullptr ? z : nullptr);
  PathState s;
  for (int a = 0; a < p.assets; ++a) s.log_price[a] = 0;
  s.variance = p.heston.v0;
  s.low = p.extreme < 0 ? p.extreme : 0;
  s.high = p.extreme > 0 ? p.extreme : 0;
  const bool watched = p.payoff == Payoff::barrier || p.payoff == Payoff::lookback_fixed ||
                       p.payoff == Payoff::lookback_floating;
  const bool averaged = p.payoff == Payoff::asian_price || p.payoff == Payoff::asian_strike;
  for (int step = 0; step < p.steps; ++step) {
    const double before = s.log_price[0];
    const double per_step = p.heston_model != 0 ? positive(s.variance) * p.dt : p.vol[0] * p.vol[0];
    const double variance = step == 0 ? p.first_share * per_step : per_step;
    step_assets(p, step == 0, normals, s);
    if (averaged) s.sum += p.spot[0] * std::exp(s.log_price[0]);
    if (watched) watch(p, normals, step, before, variance, s);
  }
  return settle(p, s);
}

template <class M>
SLUICE_HD PathSample one_sample(const PathPlan& p, const QuasiTables* quasi, std::uint64_t path) {
  const PathSample a = one_path<M>(p, quasi, path, 1);
  if (p.antithetic == 0) return a;
  const PathSample b = one_path<M>(p, quasi, path, -1);
  return {0.5 * (a.x + b.x), 0.5 * (a.c + b.c)};
}

}  // namespace sluice::market::formula
