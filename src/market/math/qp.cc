#include "market/math/qp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/math/dense.h"
#include "market/math/qp_standard_form.h"

namespace sluice::market {
namespace {

using Vector = std::vector<double>;

double largest(const Vector& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}

constexpr double kTolerance = 1e-8;   // residual() of a solution
constexpr std::size_t kLongRow = 64;  // terms of a row whose squares take a while

// The same program in variables x_i * unit_i whose diagonal of p is 1, so that no variance is small
// beside another's. Values of the rows stay as they are.
struct Equilibrated {
  QpProblem problem;
  Vector units;      // per variable
  double scale = 1;  // of the objective
};

Equilibrated equilibrated(const QpProblem& from) {
  const std::size_t n = from.q.size();
  double least = kNoLimit;  // square roots of the diagonal that are not 0
  for (std::size_t i = 0; i < n; ++i)
    if (from.p[i * n + i] > 0) least = std::min(least, std::sqrt(from.p[i * n + i]));
  if (!(least < kNoLimit)) return {from, Vector(n, 1.0), 1};
  Equilibrated to{from, Vector(n, 1.0), 1 / least / least};
  for (std::size_t i = 0; i < n; ++i)
    if (from.p[i * n + i] > 0) to.units[i] = std::sqrt(from.p[i * n + i]) / least;
  for (std::size_t i = 0; i < n; ++i) {
    to.problem.q[i] = from.q[i] / least / least / to.units[i];
    for (std::size_t j = 0; j < n; ++j)
      to.problem.p[i * n + j] = from.p[i * n + j] / least / to.units[i] / least / to.units[j];
  }
  for (QpRow& row : to.problem.rows)
    for (auto& [i, c] : row.terms) c /= to.units[i];
  return to;
}

// One run of Mehrotra's predictor and corrector.
class Interior {
 public:
  Interior(const QpProblem& problem, const QpStandardForm& form, const Vector& units)
      : qp_(problem), form_(form), units_(units), n_(problem.q.size()), m_(form.limits.size()) {
    size_ = std::max({largest(qp_.p), largest(qp_.q), 1e-300});
    x_.assign(n_, 0);
    y_.assign(form_.equal.size(), 0);
    s_.assign(m_, 1);
    z_.assign(m_, size_);
  }

  InteriorPoint run() {
    start();
    InteriorPoint out;
    double best = kNoLimit;
    for (iterations_ = 0; iterations_ < 100; ++iterations_) {
      throw_if_cancelled();
      residuals();
      const double now = residual();
      if (now < best) {
        best = now;
        out.solution = {x_, multipliers(), iterations_, false};
        out.slack = s_;
        out.z = z_;
      }
      // Once rounding dominates the slacks a step can make everything worse, so the best point so
      // far is kept.
      if (best <= 1e-12 || (best <= kTolerance && now > 100 * best) || !step()) break;
    }
    out.converged = best <= kTolerance && widest(out.solution.x) < 1e7;
    return out;
  }

 private:
  // The least-squares fit of the limits gives a start that knows their scale.
  void start() {
    factor();
    Vector dx = qp_.q, dy(y_.size());
    for (double& v : dx) v = -v;
    for (std::size_t k = 0; k < m_; ++k) add_inequality(k, size_ * form_.limits[k].h, dx);
    for (std::size_t k = 0; k < y_.size(); ++k) dy[k] = qp_.rows[form_.equal[k]].lower;
    solve_step(dx, dy);
    x_ = dx;
    y_ = dy;
    double scale = 1e-3;
    for (std::size_t k = 0; k < m_; ++k) scale = std::max(scale, std::abs(slack_of(k)));
    for (std::size_t k = 0; k < m_; ++k) s_[k] = std::max(slack_of(k), 0.1 * scale);
  }

  double slack_of(std::size_t k) const {
    const QpInequality& inequality = form_.limits[k];
    return inequality.h - inequality.sign * value_of(qp_.rows[inequality.row], x_);
  }

  void add_inequality(std::size_t k, double factor, Vector& to) const {
    const QpInequality& inequality = form_.limits[k];
    for (const auto& [i, c] : qp_.rows[inequality.row].terms) to[i] += factor * inequality.sign * c;
  }

  double inequality_times(std::size_t k, const Vector& v) const {
    const QpInequality& inequality = form_.limits[k];
    return inequality.sign * value_of(qp_.rows[inequality.row], v);
  }

  // The largest variable in the units of the rows.
  double widest(const Vector& x) const {
    double m = 0;
    for (std::size_t i = 0; i < n_; ++i) m = std::max(m, std::abs(x[i]) / units_[i]);
    return m;
  }

  void residuals() {
    rd_ = qp_.q;
    square_ = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      const double slope = dot({qp_.p.data() + i * n_, n_}, {x_.data(), n_});
      square_ += slope * x_[i];
      rd_[i] += slope;
    }
    rp_.resize(y_.size());
    for (std::size_t k = 0; k < y_.size(); ++k) {
      const QpRow& row = qp_.rows[form_.equal[k]];
      for (const auto& [i, c] : row.terms) rd_[i] += y_[k] * c;
      rp_[k] = value_of(row, x_) - row.lower;
    }
    rg_.resize(m_);
    mu_ = 0;
    for (std::size_t k = 0; k < m_; ++k) {
      add_inequality(k, z_[k], rd_);
      rg_[k] = s_[k] - slack_of(k);
      mu_ += s_[k] * z_[k];
    }
    if (m_ > 0) mu_ /= static_cast<double>(m_);
  }

  // Returns the largest violation of the optimality conditions, relative to the size of the data.
  double residual() const {
    const double x = 1 + largest(x_), w = 1 + widest(x_);
    return std::max({largest(rd_) / (size_ * x), largest(rp_) / w, largest(rg_) / w,
                     mu_ / (size_ * x + std::max(square_, 0.0))});
  }

  // P + G' (z/s) G and the equalities' Schur complement, both factored.
  void factor() {
    k_ = qp_.p;
    for (std::size_t k = 0; k < m_; ++k) {
      const auto& terms = qp_.rows[form_.limits[k].row].terms;
      if (terms.size() > kLongRow) throw_if_cancelled();
      const double w = z_[k] / s_[k];
      for (const auto& [i, a] : terms)
        for (const auto& [j, b] : terms) k_[i * n_ + j] += w * a * b;
    }
    double top = 0;
    for (std::size_t i = 0; i < n_; ++i) top = std::max(top, k_[i * n_ + i]);
    // The small diagonal keeps directions without a limit bounded.
    for (std::size_t i = 0; i < n_; ++i) k_[i * n_ + i] += 1e-10 * size_;
    cholesky(k_, n_, 1e-25 * top, top);
    const std::size_t e = y_.size();
    columns_.assign(e, Vector(n_, 0.0));
    schur_.assign(e * e, 0.0);
    for (std::size_t k = 0; k < e; ++k) {
      throw_if_cancelled();
      for (const auto& [i, c] : qp_.rows[form_.equal[k]].terms) columns_[k][i] += c;
      cholesky_solve(k_, n_, columns_[k]);
      for (std::size_t j = 0; j < e; ++j)
        schur_[j * e + k] = value_of(qp_.rows[form_.equal[j]], columns_[k]);
    }
    double widest = 0;
    for (std::size_t k = 0; k < e; ++k) widest = std::max(widest, schur_[k * e + k]);
    cholesky(schur_, e, 1e-14 * widest, widest);
  }

  // In: the right-hand sides of the two rows of the reduced system; out: dx and dy. Two rounds of
  // iterative refinement follow, since the factors are of a slightly different matrix.
  void solve_step(Vector& dx, Vector& dy) const {
    Vector left_x = dx, left_y = dy;
    std::fill(dx.begin(), dx.end(), 0.0);
    std::fill(dy.begin(), dy.end(), 0.0);
    for (int pass = 0; pass < 3; ++pass) {
      Vector x = left_x, y = left_y;
      solve_factored(x, y);
      for (std::size_t i = 0; i < n_; ++i) dx[i] += x[i];
      for (std::size_t k = 0; k < dy.size(); ++k) dy[k] += y[k];
      if (pass < 2) take_off(x, y, left_x, left_y);
    }
  }

  // Subtracts the contribution of x and y from the right-hand sides.
  void take_off(const Vector& x, const Vector& y, Vector& left_x, Vector& left_y) const {
    for (std::size_t i = 0; i < n_; ++i) left_x[i] -= dot({qp_.p.data() + i * n_, n_}, x);
    for (std::size_t k = 0; k < m_; ++k)
      add_inequality(k, -z_[k] / s_[k] * inequality_times(k, x), left_x);
    for (std::size_t k = 0; k < y.size(); ++k) {
      const QpRow& row = qp_.rows[form_.equal[k]];
      for (const auto& [i, c] : row.terms) left_x[i] -= y[k] * c;
      left_y[k] -= value_of(row, x);
    }
  }

  void solve_factored(Vector& dx, Vector& dy) const {
    const std::size_t e = y_.size();
    cholesky_solve(k_, n_, dx);
    for (std::size_t k = 0; k < e; ++k) dy[k] = value_of(qp_.rows[form_.equal[k]], dx) - dy[k];
    cholesky_solve(schur_, e, dy);
    for (std::size_t k = 0; k < e; ++k)
      for (std::size_t i = 0; i < n_; ++i) dx[i] -= columns_[k][i] * dy[k];
  }

  struct Direction {
    Vector x, y, s, z;
  };

  // `rc` is the amount by which s z shall fall.
  Direction direction(const Vector& rc) const {
    Direction d{rd_, rp_, Vector(m_), Vector(m_)};
    for (double& v : d.x) v = -v;
    for (double& v : d.y) v = -v;
    for (std::size_t k = 0; k < m_; ++k) add_inequality(k, (rc[k] - z_[k] * rg_[k]) / s_[k], d.x);
    solve_step(d.x, d.y);
    for (std::size_t k = 0; k < m_; ++k) {
      d.s[k] = -rg_[k] - inequality_times(k, d.x);
      d.z[k] = (-rc[k] - z_[k] * d.s[k]) / s_[k];
    }
    return d;
  }

  // Returns the largest step in [0, 1] that keeps v positive.
  static double max_step(const Vector& v, const Vector& dv) {
    double part = 1;
    for (std::size_t k = 0; k < v.size(); ++k)
      if (dv[k] < 0) part = std::min(part, -v[k] / dv[k]);
    return part;
  }

  // Returns the mean of s z after a step of length a.
  double mu_behind(const Direction& d, double a) const {
    double sum = 0;
    for (std::size_t k = 0; k < m_; ++k) sum += (s_[k] + a * d.s[k]) * (z_[k] + a * d.z[k]);
    return m_ > 0 ? sum / static_cast<double>(m_) : 0;
  }

  double length(const Direction& d) const {
    return std::min(
        1.0, 0.995 * std::min(max_step(s_, d.s), max_step(z_, d.z)) + (m_ == 0 ? 0.005 : 0.0));
  }

  // Mehrotra's step: it is computed as if s z could be 0 at once, and again with the terms that
  // this left out.
  Direction corrected() const {
    Vector rc(m_);
    for (std::size_t k = 0; k < m_; ++k) rc[k] = s_[k] * z_[k];
    const Direction d = direction(rc);
    if (m_ == 0) return d;
    const double ratio = mu_behind(d, std::min(max_step(s_, d.s), max_step(z_, d.z))) / mu_;
    for (std::size_t k = 0; k < m_; ++k) rc[k] += d.s[k] * d.z[k] - ratio * ratio * ratio * mu_;
    return direction(rc);
  }

  // A step without a correction, towards equal s z, which does not cycle.
  Direction centred() const {
    Vector rc(m_);
    for (std::size_t k = 0; k < m_; ++k) rc[k] = s_[k] * z_[k] - 0.3 * mu_;
    return direction(rc);
  }

  bool step() {
    factor();
    Direction d = corrected();
    double a = length(d);
    if (m_ > 0 && !(mu_behind(d, a) < 0.7 * mu_)) {
      d = centred();
      a = length(d);
    }
    if (!std::isfinite(a) || a < 1e-12) return false;
    move(d, a);
    return std::isfinite(largest(x_));
  }

  void move(const Direction& d, double a) {
    for (std::size_t i = 0; i < n_; ++i) x_[i] += a * d.x[i];
    for (std::size_t k = 0; k < y_.size(); ++k) y_[k] += a * d.y[k];
    for (std::size_t k = 0; k < m_; ++k) s_[k] += a * d.s[k], z_[k] += a * d.z[k];
  }

  Vector multipliers() const {
    Vector out(qp_.rows.size(), 0.0);
    for (std::size_t k = 0; k < y_.size(); ++k) out[form_.equal[k]] = y_[k];
    for (std::size_t k = 0; k < m_; ++k) out[form_.limits[k].row] += form_.limits[k].sign * z_[k];
    return out;
  }

  const QpProblem& qp_;
  const QpStandardForm& form_;
  const Vector& units_;
  std::size_t n_, m_;
  double size_ = 1, mu_ = 0, square_ = 0;
  int iterations_ = 0;
  Vector x_, y_, s_, z_, rd_, rp_, rg_, k_, schur_;
  std::vector<Vector> columns_;
};

void check(const QpProblem& problem) {
  const std::size_t n = problem.q.size();
  require(n > 0, "the program has no variables");
  require(problem.p.size() == n * n, "p is not a matrix of the size of q");
  for (const double v : problem.p) require(std::isfinite(v), "p has a value that is not finite");
  for (const double v : problem.q) require(std::isfinite(v), "q has a value that is not finite");
  for (const QpRow& row : problem.rows)
    if (!(row.lower <= row.upper))
      throw Error(Code::invalid_argument, fmt::format("no value fits: {}", row.name));
}

double value_at(const QpProblem& qp, const Vector& x) {
  const std::size_t n = x.size();
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += x[i] * (qp.q[i] + dot({qp.p.data() + i * n, n}, {x.data(), n}) / 2);
  return sum;
}

// In the units of the given problem; nothing where no point is good enough.
std::optional<QpSolution> solved(const Equilibrated& even, const QpStandardForm& form) {
  InteriorPoint point = Interior(even.problem, form, even.units).run();
  QpSolution& found = point.solution;
  if (point.converged || std::isfinite(largest(found.x)))
    found.polished = polish(even.problem, form, point.slack, point.z, found);
  if (!point.converged && !found.polished) return std::nullopt;
  for (std::size_t i = 0; i < found.x.size(); ++i) found.x[i] /= even.units[i];
  for (double& m : found.multipliers) m /= even.scale;
  return std::move(found);
}

}  // namespace

InteriorPoint interior_point(const QpProblem& problem, const QpStandardForm& form) {
  const Vector units(problem.q.size(), 1.0);
  return Interior(problem, form, units).run();
}

std::optional<QpSolution> try_solve(const QpProblem& problem) {
  check(problem);
  const QpStandardForm form = standard_form(problem);
  const Equilibrated even = equilibrated(problem);
  auto found = solved(even, form);
  // Where variables of a large variance decide, their own size is the better one.
  constexpr double kUneven = 100;
  if ((found && found->polished) || !(largest(even.units) > kUneven)) return found;
  auto other = solved({problem, Vector(problem.q.size(), 1.0), 1}, form);
  if (!found || !other) return found ? found : other;
  const bool better = other->polished || value_at(problem, other->x) < value_at(problem, found->x);
  return better ? other : found;
}

QpSolution solve(const QpProblem& problem) {
  auto found = try_solve(problem);
  if (!found) throw_infeasible(problem);
  return *std::move(found);
}

}  // namespace sluice::market
