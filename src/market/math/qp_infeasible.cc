// Finds constraints that are infeasible together (elastic filter). Bounds of single variables are
// kept, every other row may be
// relaxed at a cost, and the total violation is minimised. When it is not 0, the rows with
// a multiplier there are a proof that they exclude each other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "market/math/qp_standard_form.h"

namespace sluice::market {
namespace {

constexpr std::size_t kMaxNamed = 6;

bool may_be_relaxed(const QpRow& row) { return row.terms.size() != 1; }

// The variables of the search: those of the problem, and one for each limit that may be broken.
std::size_t width_of(const QpProblem& problem) {
  std::size_t wide = problem.q.size();
  for (const QpRow& row : problem.rows)
    if (may_be_relaxed(row))
      wide += (row.lower > -kNoLimit ? 1u : 0u) + (row.upper < kNoLimit ? 1u : 0u);
  return wide;
}

QpProblem elastic(const QpProblem& problem) {
  const std::size_t n = problem.q.size(), wide = width_of(problem);
  QpProblem e;
  e.p.assign(wide * wide, 0.0);
  e.q.assign(wide, 0.0);
  for (std::size_t i = 0; i < wide; ++i) e.p[i * wide + i] = 1e-7;
  std::size_t next = n;
  std::vector<QpRow> more;
  for (QpRow row : problem.rows) {
    if (may_be_relaxed(row))
      for (const double sign : {1.0, -1.0}) {
        if (sign > 0 ? row.lower == -kNoLimit : row.upper == kNoLimit) continue;
        row.terms.emplace_back(next, sign);
        e.q[next] = 1;
        more.push_back({{{next, 1.0}}, 0, kNoLimit, ""});
        ++next;
      }
    e.rows.push_back(std::move(row));
  }
  e.rows.insert(e.rows.end(), more.begin(), more.end());
  return e;
}

}  // namespace

std::vector<std::string> infeasible_rows(const QpProblem& problem) {
  if (width_of(problem) > kMaxSearchWidth) return {};
  const QpProblem e = elastic(problem);
  const InteriorPoint point = interior_point(e, standard_form(e));
  double violation = 0;
  for (std::size_t i = problem.q.size(); i < e.q.size(); ++i) violation += point.solution.x[i];
  std::vector<std::string> names;
  if (!(violation > 1e-6)) return names;
  // Rows of several variables tell more about a conflict than limits of single ones.
  std::size_t others = 0;
  for (const bool single : {false, true})
    for (std::size_t r = 0; r < problem.rows.size(); ++r) {
      const QpRow& row = problem.rows[r];
      if (row.name.empty() || std::abs(point.solution.multipliers[r]) < 1e-3) continue;
      if ((row.terms.size() == 1) != single) continue;
      if (names.size() < kMaxNamed)
        names.push_back(row.name);
      else
        ++others;
    }
  if (others > 0) names.push_back("and " + std::to_string(others) + " more");
  return names;
}

void throw_infeasible(const QpProblem& problem) {
  const auto names = infeasible_rows(problem);
  require(names.empty(), fmt::format("no portfolio fulfils all of: {}", fmt::join(names, "; ")));
  require(width_of(problem) <= kMaxSearchWidth,
          "no portfolio fulfils all limits, or the optimum has no bound: there are too many "
          "limits to say which of them");
  throw Error(Code::invalid_argument,
              "the optimum has no bound or is not found: set limits for the weights");
}

}  // namespace sluice::market
