// Implied volatility of one option, on CPU and GPU.
#pragma once

#include "market/math/fast_math.h"

namespace sluice::market::formula {

struct Implied {
  double vol;
  int reason;  // as ImpliedReason
};

// Normalised price of the out-of-the-money option with log-moneyness x <= 0, as a share of
// sqrt(spot strike) discounted, at total deviation s: value, what is missing to the greatest
// possible value e^(x/2), and slope. Each is without cancellation where it is used.
struct Normalised {
  double value, missing, slope;
};

template <class M>
SLUICE_HD Normalised normalised(double x, double s) {
  const double h = x / s, half = 0.5 * s;
  const double bell = fast::exp<M>(-0.5 * (h * h + half * half));
  const double far_tail = fast::scaled_tail<M>(half - h), inner = h + half;
  const double near_tail = fast::scaled_tail<M>(std::fabs(inner));
  Normalised n;
  n.slope = bell * 0.3989422804014327;
  const double upper_bound = std::exp(0.5 * x);
  if (inner < 0) {
    n.value = bell * (near_tail - far_tail);
    n.missing = upper_bound - n.value;
  } else {
    n.missing = bell * (near_tail + far_tail);
    n.value = upper_bound - n.missing;
  }
  return n;
}

// One step of Halley's method. Below the price at the steepest point 1/log(price) is
// almost straight in s; above it the log of what is missing is.
SLUICE_HD inline double halley(double f, double slope, double curvature) {
  const double newton = f / slope, correction = 1 - 0.5 * newton * curvature;
  return newton / (correction > 0.5 ? correction : 0.5);
}

template <class M>
SLUICE_HD double implied_deviation(double x, double target) {
  const double steepest = std::sqrt(-2 * x), upper_bound = std::exp(0.5 * x);
  const bool lower = x < 0 && target < normalised<M>(x, steepest).value;
  const double aim = lower ? 1 / std::log(target) : std::log(upper_bound - target);
  double lo = lower ? 0 : steepest, hi = lower ? steepest : 100;
  double s = lower ? -x / std::sqrt(-2 * std::log(target)) : steepest;
  if (x == 0) s = 2.5066282746310002 * target;
  if (!(s > lo && s < hi) && x != 0 && lower) s = 0.5 * (lo + hi);
  for (int i = 0; i < 60; ++i) {
    const Normalised n = normalised<M>(x, s);
    const double bend = x * x / (s * s * s) - 0.25 * s;  // second derivative over first
    double step;
    if (lower) {
      const double log_value = std::log(n.value), rate = n.slope / n.value;
      step = halley(1 / log_value - aim, -rate / (log_value * log_value),
                    bend - rate * (1 + 2 / log_value));
    } else {
      const double rate = n.slope / n.missing;
      step = halley(std::log(n.missing) - aim, -rate, bend + rate);
    }
    (n.value > target ? hi : lo) = s;
    double next = s - step;
    if (!(next > lo && next < hi)) next = 0.5 * (lo + hi);
    const bool done = std::fabs(next - s) <= 4e-16 * s;
    s = next;
    if (done) break;
  }
  return s;
}

// w is 1 for a call, -1 for a put.
template <class M>
SLUICE_HD Implied implied(double w, double price, double spot, double strike, double t, double rate,
                          double yield) {
  const double a = spot * std::exp(-yield * t), b = strike * std::exp(-rate * t);
  if (!(spot > 0 && strike > 0 && t > 0 && a > 0 && b > 0 && price >= 0 && price < 1e300 &&
        a < 1e300 && b < 1e300 && t < 1e300))
    return {NAN, price < 0 ? 2 : 1};
  const double forward = w * (a - b), intrinsic = forward > 0 ? forward : 0;
  if (price >= (w > 0 ? a : b)) return {NAN, 4};
  const double time_value = price - intrinsic;
  if (time_value < 0) return {NAN, 2};
  if (time_value == 0) return {0, 3};
  const double x = -std::fabs(std::log(spot / strike) + (rate - yield) * t);
  const double target = time_value / std::sqrt(a * b);
  if (!(target < std::exp(0.5 * x))) return {NAN, 4};
  return {implied_deviation<M>(x, target) / std::sqrt(t), 0};
}

}  // namespace sluice::market::formula
