// Sums over chunks of a series, how two neighbours join, and the metrics that follow, for CPU and
// GPU.
#pragma once

#include <cmath>
#include <cstddef>

#include "compute/hd.h"
#include "market/risk/metrics.h"

namespace sluice::market::formula {

// Sums of powers of the distance from the mean. They join without cancellation, which the
// sums of plain powers do not.
struct Moments {
  double n = 0, mean = 0, m2 = 0, m3 = 0, m4 = 0;
};

SLUICE_HD inline Moments join(const Moments& a, const Moments& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, d = b.mean - a.mean, e = d / n, f = d * e * a.n * b.n;
  Moments r;
  r.n = n;
  r.mean = a.mean + e * b.n;
  r.m2 = a.m2 + b.m2 + f;
  r.m3 = a.m3 + b.m3 + f * e * (a.n - b.n) + 3 * e * (a.n * b.m2 - b.n * a.m2);
  r.m4 = a.m4 + b.m4 + f * e * e * (a.n * a.n - a.n * b.n + b.n * b.n) +
         6 * e * e * (a.n * a.n * b.m2 + b.n * b.n * a.m2) + 4 * e * (a.n * b.m3 - b.n * a.m3);
  return r;
}

// The same for pairs: x is the series, y the benchmark.
struct CoMoments {
  double n = 0, mean_x = 0, mean_y = 0, xy = 0, yy = 0;
};

SLUICE_HD inline CoMoments join(const CoMoments& a, const CoMoments& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, w = a.n * b.n / n;
  const double dx = b.mean_x - a.mean_x, dy = b.mean_y - a.mean_y;
  return {n, a.mean_x + dx * b.n / n, a.mean_y + dy * b.n / n, a.xy + b.xy + dx * dy * w,
          a.yy + b.yy + dy * dy * w};
}

// The wealth over a chunk, as a multiple of that before it. Its extremes include that
// start, which is the last value of the chunk before.
struct Path {
  double end = 1, high = 1, low = 1;
  double depth = 1;  // lowest wealth / highest before
};

// The deepest fall so far, over chunks in their order. Wealth is kept relative to its
// peak, so that no length of series overflows.
struct Fall {
  double now = 1, depth = 1, wealth = 1;
  std::int64_t high = -1;               // chunk of the peak; -1: the start
  std::int64_t peak = -1, trough = -1;  // chunks of the deepest fall

  SLUICE_HD void add(const Path& p, std::int64_t chunk) {
    const double low = now * p.low, top = now * p.high;
    if (low < depth) depth = low, peak = high, trough = chunk;
    if (p.depth < depth) depth = p.depth, peak = chunk, trough = chunk;
    if (top > 1) high = chunk;
    now = top > 1 ? p.end / p.high : now * p.end;
    wealth *= p.end;
  }
};

struct Totals {
  Moments moments;
  CoMoments with;
  double below = 0;  // sum of min(r - required, 0)^2
  double depth = 1, wealth = 1;
};

SLUICE_HD inline void finish_shape(const Moments& m, bool corrected, RiskMetrics& out) {
  const double n = m.n, variance = m.m2 / n;
  const double g1 = m.m3 / n / (variance * sqrt(variance));
  const double g2 = m.m4 / n / (variance * variance) - 3;
  const double nan = double{NAN};
  out.skew = !corrected ? g1 : n > 2 ? sqrt(n * (n - 1)) / (n - 2) * g1 : nan;
  out.kurtosis = !corrected ? g2 : n > 3 ? (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g2 + 6) : nan;
}

// Sets all metrics but the bars.
SLUICE_HD inline void finish(const Totals& t, const RiskOptions& o, RiskMetrics& out) {
  Moments m = t.moments;
  const double rounding = 1e-15 * m.mean;  // a spread that is no more is none
  if (m.m2 <= m.n * rounding * rounding) m.m2 = m.m3 = m.m4 = 0;
  const double nan = double{NAN};
  const double year = sqrt(o.periods_per_year), n = m.n;
  const double deviation = n > o.ddof ? sqrt(m.m2 / (n - o.ddof)) : nan;
  out.count = n;
  out.total_return = t.wealth - 1;
  out.annual_return = n > 0 ? pow(t.wealth, o.periods_per_year / n) - 1 : nan;
  out.mean = n > 0 ? m.mean : nan;
  out.volatility = deviation * year;
  out.downside_deviation = sqrt(t.below / n) * year;
  out.sharpe = (out.mean - o.risk_free) / deviation * year;
  out.sortino = (out.mean - o.required_return) * o.periods_per_year / out.downside_deviation;
  out.max_drawdown = n > 0 ? t.depth - 1 : nan;
  out.calmar = t.depth < 1 ? out.annual_return / (1 - t.depth) : nan;
  finish_shape(m, o.bias_corrected, out);
  out.beta = t.with.xy / t.with.yy;
  const double alpha = t.with.mean_x - o.risk_free - out.beta * (t.with.mean_y - o.risk_free);
  out.alpha = pow(1 + alpha, o.periods_per_year) - 1;
}

}  // namespace sluice::market::formula
