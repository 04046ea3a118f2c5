// A quadratic program in standard form: equalities and inequalities g' x <= h.
#pragma once

#include "market/math/qp.h"

namespace sluice::market {

struct QpInequality {
  std::size_t row;
  double sign;  // 1: the row's upper limit, -1: its lower
  double h;     // sign * limit
};

struct QpStandardForm {
  std::vector<std::size_t> equal;  // rows
  std::vector<QpInequality> limits;
};

inline QpStandardForm standard_form(const QpProblem& problem) {
  QpStandardForm s;
  for (std::size_t r = 0; r < problem.rows.size(); ++r) {
    const QpRow& row = problem.rows[r];
    if (row.lower == row.upper) {
      s.equal.push_back(r);
      continue;
    }
    if (row.upper < kNoLimit) s.limits.push_back({r, 1, row.upper});
    if (row.lower > -kNoLimit) s.limits.push_back({r, -1, -row.lower});
  }
  return s;
}

inline double value_of(const QpRow& row, const std::vector<double>& x) {
  double sum = 0;
  for (const auto& [i, c] : row.terms) sum += c * x[i];
  return sum;
}

// Solves again with the limits whose multiplier is above their slack as equalities. Returns false,
// and changes nothing, when the result breaks a limit or has a multiplier of the wrong sign.
bool polish(const QpProblem& problem, const QpStandardForm& form, const std::vector<double>& slack,
            const std::vector<double>& z, QpSolution& solution);

struct InteriorPoint {
  QpSolution solution;
  std::vector<double> slack, z;  // of the limits
  bool converged = false;
};
InteriorPoint interior_point(const QpProblem& problem, const QpStandardForm& form);

}  // namespace sluice::market
