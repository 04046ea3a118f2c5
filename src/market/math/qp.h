// Convex quadratic programs: a primal-dual interior point method, whose answer is then
// made exact by solving for the constraints that turned out to hold with equality.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::market {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// lower <= sum of coefficient * x[variable] <= upper.
struct QpRow {
  std::vector<std::pair<std::size_t, double>> terms;
  double lower = -kNoLimit, upper = kNoLimit;
  std::string name;  // for people, when it cannot hold: "the weight of AAPL is at most 0.1"; empty:
                     // not worth naming
};

// Minimises x' p x / 2 + q' x; p is symmetric, has no negative eigenvalue, and both triangles are
// given.
struct QpProblem {
  std::vector<double> p, q;
  std::vector<QpRow> rows;
};

struct QpSolution {
  std::vector<double> x;
  std::vector<double> multipliers;  // of the rows: above 0 at the upper limit, below at the lower
  int iterations = 0;
  bool polished = false;  // exact to rounding; else within 1e-8 of the data's size
};

// Throws invalid_argument that names the rows in conflict when no x fulfils all, and
// one that says so when the minimum is unbounded.
QpSolution solve(const QpProblem& problem);
// Returns nothing where solve() throws, without a search for the reason.
std::optional<QpSolution> try_solve(const QpProblem& problem);
[[noreturn]] void throw_infeasible(
    const QpProblem& problem);  // as solve() does for a problem without a solution

// Above this number of variables and multi-variable limits no search for conflicting rows is made:
// it would take longer than the problem itself.
inline constexpr std::size_t kMaxSearchWidth = 600;

// The names of rows that are infeasible together; empty when the problem is feasible, or when there
// are too many rows.
std::vector<std::string> infeasible_rows(const QpProblem& problem);

}  // namespace sluice::market
