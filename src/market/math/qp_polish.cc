#include <algorithm>
#include <cmath>

#include "market/math/dense.h"
#include "market/math/qp_standard_form.h"

namespace sluice::market {
namespace {

constexpr std::size_t kFree = static_cast<std::size_t>(-1);

struct Fixed {
  std::size_t row;  // holds with equality
  double value;
};

// The rows that hold with equality. Those of one variable fix it, the others stay rows.
struct Face {
  std::vector<std::size_t> fixing;  // per variable: the row that fixes it, or kFree
  std::vector<Fixed> rows;
  std::vector<std::size_t> free;
};

Face face_of(const QpProblem& qp, const QpStandardForm& form, const std::vector<double>& slack,
             const std::vector<double>& z, std::vector<double>& x) {
  Face face;
  face.fixing.assign(qp.q.size(), kFree);
  const auto hold = [&](std::size_t r, double value) {
    const auto& terms = qp.rows[r].terms;
    if (terms.size() == 1 && face.fixing[terms[0].first] == kFree) {
      face.fixing[terms[0].first] = r;
      x[terms[0].first] = value / terms[0].second;
    } else if (terms.size() > 1) {
      face.rows.push_back({r, value});
    }
  };
  for (const std::size_t r : form.equal) hold(r, qp.rows[r].lower);
  for (std::size_t k = 0; k < form.limits.size(); ++k) {
    double unit = 0;  // of the row: slack is measured in it, z in its inverse
    for (const auto& [i, c] : qp.rows[form.limits[k].row].terms) unit = std::max(unit, std::abs(c));
    if (z[k] * unit > slack[k] / unit)
      hold(form.limits[k].row, form.limits[k].sign * form.limits[k].h);
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    if (face.fixing[i] == kFree) face.free.push_back(i);
  return face;
}

// A second solution for what rounding left of the first makes each row exact to rounding, however
// their sizes differ.
bool solve_refined(const std::vector<double>& a, std::size_t m, std::vector<double>& b) {
  std::vector<double> lu = a, left = b;
  std::vector<std::size_t> pivots;
  if (!lu_factor(lu, m, pivots)) return false;
  lu_solve(lu, m, pivots, b);
  for (std::size_t i = 0; i < m; ++i) left[i] -= dot({a.data() + i * m, m}, b);
  lu_solve(lu, m, pivots, left);
  for (std::size_t i = 0; i < m; ++i) b[i] += left[i];
  return true;
}

// The optimality conditions of the free variables and the rows' multipliers.
bool solve_face(const QpProblem& qp, const Face& face, std::vector<double>& x,
                std::vector<double>& y) {
  const std::size_t n = qp.q.size(), f = face.free.size(), m = f + face.rows.size();
  std::vector<double> a(m * m, 0.0), b(m, 0.0);
  std::vector<std::size_t> place(n, kFree);
  for (std::size_t i = 0; i < f; ++i) place[face.free[i]] = i;
  for (std::size_t i = 0; i < f; ++i) {
    const std::size_t v = face.free[i];
    b[i] = -qp.q[v];
    for (std::size_t j = 0; j < n; ++j) {
      if (place[j] != kFree)
        a[i * m + place[j]] = qp.p[v * n + j];
      else
        b[i] -= qp.p[v * n + j] * x[j];
    }
  }
  for (std::size_t k = 0; k < face.rows.size(); ++k) {
    b[f + k] = face.rows[k].value;
    for (const auto& [j, c] : qp.rows[face.rows[k].row].terms) {
      if (place[j] == kFree) {
        b[f + k] -= c * x[j];
      } else {
        a[(f + k) * m + place[j]] += c;
        a[place[j] * m + f + k] += c;
      }
    }
  }
  if (m > 0 && !solve_refined(a, m, b)) return false;
  for (std::size_t i = 0; i < f; ++i) x[face.free[i]] = b[i];
  y.assign(b.begin() + static_cast<std::ptrdiff_t>(f), b.end());
  return true;
}

// Returns the multipliers of all rows. Those of fixed variables take up the rest of the gradient.
std::vector<double> multipliers_of(const QpProblem& qp, const Face& face,
                                   const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t n = qp.q.size();
  std::vector<double> out(qp.rows.size(), 0.0), gradient = qp.q;
  for (std::size_t i = 0; i < n; ++i) gradient[i] += dot({qp.p.data() + i * n, n}, {x.data(), n});
  for (std::size_t k = 0; k < y.size(); ++k) {
    out[face.rows[k].row] = y[k];
    for (const auto& [i, c] : qp.rows[face.rows[k].row].terms) gradient[i] += c * y[k];
  }
  for (std::size_t i = 0; i < n; ++i)
    if (face.fixing[i] != kFree)
      out[face.fixing[i]] -= gradient[i] / qp.rows[face.fixing[i]].terms[0].second;
  return out;
}

bool fulfilled(const QpProblem& qp, const std::vector<double>& x,
               const std::vector<double>& multipliers) {
  double size = 0;
  for (const double m : multipliers) size = std::max(size, std::abs(m));
  for (std::size_t r = 0; r < qp.rows.size(); ++r) {
    const QpRow& row = qp.rows[r];
    const double v = value_of(row, x), m = multipliers[r];
    if (!std::isfinite(v) || !std::isfinite(m)) return false;
    if (v < row.lower - 1e-10 || v > row.upper + 1e-10) return false;
    if (row.lower == row.upper) continue;
    const bool at_upper = v > row.upper - 1e-9, at_lower = v < row.lower + 1e-9;
    if ((m > 1e-7 * size && !at_upper) || (m < -1e-7 * size && !at_lower)) return false;
  }
  return true;
}

}  // namespace

bool polish(const QpProblem& problem, const QpStandardForm& form, const std::vector<double>& slack,
            const std::vector<double>& z, QpSolution& solution) {
  std::vector<double> x = solution.x, y;
  const Face face = face_of(problem, form, slack, z, x);
  if (face.rows.size() > face.free.size() || !solve_face(problem, face, x, y)) return false;
  const auto multipliers = multipliers_of(problem, face, x, y);
  if (!fulfilled(problem, x, multipliers)) return false;
  solution.x = std::move(x);
  solution.multipliers = multipliers;
  return true;
}

}  // namespace sluice::market
