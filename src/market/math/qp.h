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

// Least x' p x / 2 + q' x; p is symmetric, has no negative eigenvalue, and is given whole.
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
// one that says so when the least value has no bound.
QpSolution solve(const QpProblem& problem);
// None where solve() throws, without a search for the reason.
std::optional<QpSolution> attempt(const QpProblem& problem);
[[noreturn]] void refuse(const QpProblem& problem);  // as solve() does what has no solution

// Variables and limits of several of them beyond which no conflict is searched for: it would
// take longer than the problem itself.
inline constexpr std::size_t kWidestSearch = 600;

// The names of rows that cannot hold together; empty when all can, or when there are too many.
std::vector<std::string> conflict(const QpProblem& problem);

}  // namespace sluice::market
