// Small dense linear algebra, row by row.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::market {

// Factors a = L L' in place, in the lower triangle. A pivot that is not above `min_pivot` is
// replaced by `replacement`, which leaves its direction as it is. Returns the number of replaced
// pivots.
std::size_t cholesky(std::span<double> a, std::size_t n, double min_pivot, double replacement);

// Solves L L' x = b in place.
void cholesky_solve(std::span<const double> l, std::size_t n, std::span<double> b);

// Solves a x = b with row exchanges, in place; false when `a` is singular.
bool lu_solve(std::vector<double>& a, std::size_t n, std::span<double> b);

double dot(std::span<const double> a, std::span<const double> b);

}  // namespace sluice::market
