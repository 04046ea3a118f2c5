#include "market/portfolio/risk_parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/input/require.h"
#include "market/math/dense.h"
#include "market/portfolio/portfolio.h"

namespace sluice::market {
namespace {

std::vector<double> times(std::span<const double> m, std::span<const double> x) {
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = dot(m.subspan(i * x.size(), x.size()), x);
  return out;
}

std::vector<double> checked_shares(std::span<const double> shares, std::size_t n) {
  std::vector<double> b(shares.begin(), shares.end());
  if (b.empty()) b.assign(n, 1.0);
  require(b.size() == n, fmt::format("{} risk shares for {} assets", b.size(), n));
  for (const double v : b)
    require(std::isfinite(v) && v > 0, fmt::format("a risk share is {}; it must be above 0", v));
  const double sum = std::accumulate(b.begin(), b.end(), 0.0);
  for (double& v : b) v /= sum;
  return b;
}

// Returns how much larger the function above is at x - part * step than at x, by its terms of
// second order.
double rise(std::span<const double> c, std::span<const double> b, const std::vector<double>& x,
            const std::vector<double>& step, double decrement, double part) {
  double sum = -part * decrement + 0.5 * part * part * dot(step, times(c, step));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double change = part * step[i] / x[i];
    sum -= b[i] * (std::log1p(-change) + change);
  }
  return sum;
}

// Minimises over one weight after the other: finds the size of those with very small shares.
void sweep_weights(std::span<const double> c, std::span<const double> b, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double own = c[i * n + i], others = dot(c.subspan(i * n, n), x) - own * x[i];
    const double root = std::sqrt(others * others + 4 * own * b[i]);
    x[i] = others > 0 ? 2 * b[i] / (root + others) : (root - others) / (2 * own);
  }
}

// Newton's step for the function above; its squared length in the local measure.
double newton(std::span<const double> c, std::span<const double> b, std::vector<double>& x) {
  const std::size_t n = x.size();
  std::vector<double> hessian(c.begin(), c.end()), step = times(c, x), gradient(n);
  for (std::size_t i = 0; i < n; ++i) {
    gradient[i] = step[i] -= b[i] / x[i];
    hessian[i * n + i] += b[i] / (x[i] * x[i]);
  }
  cholesky(hessian, n, 0, 1);
  cholesky_solve(hessian, n, step);
  const double decrement = dot(gradient, step);
  double highest = 0, largest = 0;  // relative changes of a weight
  for (std::size_t i = 0; i < n; ++i) {
    highest = std::max(highest, step[i] / x[i]);
    largest = std::max(largest, std::abs(step[i] / x[i]));
  }
  // Far away the step is cut so that the function surely falls.
  const bool far = largest > 0.25;
  double part = far ? std::min(1.0, 0.95 / highest) : 1;
  for (int i = 0; far && i < 50; ++i, part /= 2)
    if (rise(c, b, x, step, decrement, part) <= -0.1 * part * decrement) break;
  for (std::size_t i = 0; i < n; ++i) x[i] -= part * step[i];
  if (far) sweep_weights(c, b, x);
  return decrement;
}

}  // namespace

std::vector<double> risk_parity(std::span<const double> covariance,
                                std::span<const std::string> names,
                                std::span<const double> shares) {
  const auto n =
      static_cast<std::size_t>(std::llround(std::sqrt(static_cast<double>(covariance.size()))));
  const auto b = checked_shares(shares, n);
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!(covariance[i * n + i] > 0))
      throw Error(Code::invalid_argument,
                  fmt::format("{} has no variance", i < names.size() ? short_name(names[i])
                                                                     : fmt::format("asset {}", i)));
    x[i] = std::sqrt(b[i] / covariance[i * n + i]);
  }
  double decrement = 1;
  for (int i = 0; i < 500 && decrement > 1e-28; ++i) {
    throw_if_cancelled();
    decrement = newton(covariance, b, x);
  }
  require(decrement < 1e-16,
          "risk parity is not found within 500 steps: no portfolio has these shares of the "
          "variance, or the covariance is too nearly singular");
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& v : x) v /= sum;
  return x;
}

std::vector<double> risk_shares(std::span<const double> covariance,
                                std::span<const double> weights) {
  require(covariance.size() == weights.size() * weights.size(),
          "the covariance is not of the weights' size");
  auto shares = times(covariance, weights);
  const double variance = dot(shares, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) shares[i] *= weights[i] / variance;
  return shares;
}

}  // namespace sluice::market
