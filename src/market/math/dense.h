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

// Factors `a` in place, with row exchanges in `pivots`; false when it is singular.
bool lu_factor(std::vector<double>& a, std::size_t n, std::vector<std::size_t>& pivots);

// Solves a x = b in place.
void lu_solve(std::span<const double> lu, std::size_t n, std::span<const std::size_t> pivots,
              std::span<double> b);

double dot(std::span<const double> a, std::span<const double> b);

}  // namespace sluice::market
