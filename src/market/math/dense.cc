#include "market/math/dense.h"

#include <algorithm>
#include <cmath>

#include "base/cancellation.h"

namespace sluice::market {

namespace {
constexpr std::size_t kRowsPerLook = 32;  // rows between two checks for cancellation
}

double dot(std::span<const double> a, std::span<const double> b) {
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  std::size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  for (; i < a.size(); ++i) s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}

std::size_t cholesky(std::span<double> a, std::size_t n, double min_pivot, double replacement) {
  std::size_t raised = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % kRowsPerLook == kRowsPerLook - 1) throw_if_cancelled();
    const auto row = a.subspan(i * n, n);
    for (std::size_t j = 0; j < i; ++j)
      row[j] = (row[j] - dot(row.first(j), a.subspan(j * n, j))) / a[j * n + j];
    double pivot = row[i] - dot(row.first(i), row.first(i));
    if (!(pivot > min_pivot)) pivot = replacement, ++raised;
    row[i] = std::sqrt(pivot);
  }
  return raised;
}

void cholesky_solve(std::span<const double> l, std::size_t n, std::span<double> b) {
  for (std::size_t i = 0; i < n; ++i)
    b[i] = (b[i] - dot(l.subspan(i * n, i), b.first(i))) / l[i * n + i];
  for (std::size_t i = n; i-- > 0;) {
    b[i] /= l[i * n + i];
    for (std::size_t j = 0; j < i; ++j) b[j] -= l[i * n + j] * b[i];
  }
}

bool lu_factor(std::vector<double>& a, std::size_t n, std::vector<std::size_t>& pivots) {
  double largest = 0;
  for (const double v : a) largest = std::max(largest, std::abs(v));
  pivots.resize(n);
  for (std::size_t k = 0; k < n; ++k) {
    if (k % kRowsPerLook == kRowsPerLook - 1) throw_if_cancelled();
    std::size_t best = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
    if (!(std::abs(a[best * n + k]) > 1e-14 * largest)) return false;
    pivots[k] = best;
    if (best != k) std::swap_ranges(&a[k * n], &a[k * n] + n, &a[best * n]);
    for (std::size_t i = k + 1; i < n; ++i) {
      if (a[i * n + k] == 0) continue;
      const double f = a[i * n + k] /= a[k * n + k];
      for (std::size_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return true;
}

void lu_solve(std::span<const double> lu, std::size_t n, std::span<const std::size_t> pivots,
              std::span<double> b) {
  for (std::size_t k = 0; k < n; ++k) std::swap(b[k], b[pivots[k]]);
  for (std::size_t i = 0; i < n; ++i) b[i] -= dot(lu.subspan(i * n, i), b.first(i));
  for (std::size_t i = n; i-- > 0;) {
    b[i] -= dot(lu.subspan(i * n + i + 1, n - i - 1), b.subspan(i + 1, n - i - 1));
    b[i] /= lu[i * n + i];
  }
}

}  // namespace sluice::market
