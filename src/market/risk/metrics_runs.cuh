// Sums and wealth over the run of bars of one thread, and how two neighbouring runs join.
#pragma once

#include <cmath>

#include "market/risk/metrics_formula.h"

namespace sluice::market::on_gpu {

// The wealth over a run, as in formula::Path, with the bars of its extremes. The start is no
// low of a run: it is the end of the run before, and with another rounding it could seem
// deeper than that.
struct RunPath {
  double end = 1, high = 1, low = INFINITY;
  double of = 1, over = 1;  // the deepest fall, as wealth and the peak before it
  int high_bar = -1, low_bar = -1, peak = -1, trough = -1;  // from the segment's first

  __device__ void fall(double wealth, double top, int top_bar, int bar) {
    if (wealth * over < of * top) of = wealth, over = top, peak = top_bar, trough = bar;
  }
  // Branch-free: a missing bar leaves the wealth and the extremes unchanged.
  __device__ void add(double r, bool there, int bar) {
    end *= there ? r + 1 : 1.0;
    if (end > high) high = end, high_bar = bar;
    if (there && end < low) low = end, low_bar = bar;
    fall(end, high, high_bar, bar);
  }
  __device__ void append(const RunPath& b) {
    const bool any = b.low_bar >= 0;
    const double lowest = end * b.low, highest = end * b.high;
    if (any) fall(lowest, high, high_bar, b.low_bar);
    fall(b.of, b.over, b.peak, b.trough);
    if (highest > high) high = highest, high_bar = b.high_bar;
    if (any && lowest < low) low = lowest, low_bar = b.low_bar;
    end *= b.end;
  }
};

// Sums of powers of the distance from a value near the mean.
struct RunSums {
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0, below = 0;
  double x = 0, y = 0, xy = 0, yy = 0;
  int n = 0, pairs = 0;

  __device__ void add(double r, bool there, double shift, double required) {
    const double d = there ? r - shift : 0.0, square = d * d;
    const double under = r < required ? r - required : 0.0;
    n += there ? 1 : 0;
    s1 += d;
    s2 += square;
    s3 = fma(square, d, s3);
    s4 = fma(square, square, s4);
    below = fma(under, under, below);
  }
  __device__ void add_pair(double dx, double dy) {
    pairs += 1;
    x += dx;
    y += dy;
    xy = fma(dx, dy, xy);
    yy = fma(dy, dy, yy);
  }
  __device__ void append(const RunSums& b) {
    n += b.n, s1 += b.s1, s2 += b.s2, s3 += b.s3, s4 += b.s4, below += b.below;
    pairs += b.pairs, x += b.x, y += b.y, xy += b.xy, yy += b.yy;
  }
  __device__ formula::Moments moments(double shift) const {
    if (n == 0) return {};
    const double count = n, d = s1 / count;
    return {count, shift + d, s2 - d * s1, s3 - 3 * d * s2 + 2 * count * d * d * d,
            s4 - 4 * d * s3 + 6 * d * d * s2 - 3 * count * d * d * d * d};
  }
  __device__ formula::CoMoments with(double shift_x, double shift_y) const {
    if (pairs == 0) return {};
    const double count = pairs;
    return {count, shift_x + x / count, shift_y + y / count, xy - x * y / count,
            yy - y * y / count};
  }
};

}  // namespace sluice::market::on_gpu
