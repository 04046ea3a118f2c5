// The method of Andersen, Lake and Offengenden for one option, on CPU and GPU. Only puts: a
// call on (spot, strike, rate, yield) is a put on (strike, spot, yield, rate).
#pragma once

#include "market/options/black_scholes_formula.h"

namespace sluice::market::formula {

inline constexpr int kMostNodes = 24, kMostPoints = 48, kMostFinalPoints = 96;

// Quadrature and Chebyshev nodes; the same for all options of a call.
struct AmericanTables {
  int nodes, iterations, points, final_points;
  int call;
  // An integral over [0, t] is taken in the angle a with t' = t cos^2 a, in which the
  // integrands have no root left at either end.
  double sine[kMostPoints], cosine_of[kMostPoints], weight[kMostPoints];
  double final_sine[kMostFinalPoints], final_cosine[kMostFinalPoints];
  double final_weight[kMostFinalPoints];
  double cosine[2 * kMostNodes];  // cos(pi i / nodes)
};

struct PutTerms {
  double strike, rate, yield, vol;
  double log_start;  // log of the boundary's limit at expiry, over strike
};

// L(t) = log(boundary / its limit at expiry) <= 0 at time t to expiry: sqrt(L^2), L^2 being
// a Chebyshev series in sqrt(t).
struct Boundary {
  double series[kMostNodes + 1];
  double level[kMostNodes + 1];  // L at the nodes
  double root_t;                 // of the option
};

SLUICE_HD inline double level_at(const Boundary& b, int nodes, double root) {
  const double z = 2 * root / b.root_t - 1;
  double b1 = 0, b2 = 0;
  for (int k = nodes; k > 0; --k) {
    const double next = b.series[k] + 2 * z * b1 - b2;
    b2 = b1;
    b1 = next;
  }
  const double square = b.series[0] + z * b1 - b2;
  return square > 0 ? -std::sqrt(square) : 0;
}

SLUICE_HD inline void fit(Boundary& b, const AmericanTables& tables) {
  const int n = tables.nodes;
  for (int k = 0; k <= n; ++k) {
    double sum = 0;
    for (int i = 0; i <= n; ++i) {
      const double h = b.level[i] * b.level[i] * (i == 0 || i == n ? 0.5 : 1);
      sum += h * tables.cosine[i * k % (2 * n)];
    }
    b.series[k] = sum * (k == 0 || k == n ? 1 : 2) / n;
  }
}

SLUICE_HD inline double node_root(const Boundary& b, const AmericanTables& tables, int i) {
  return 0.5 * b.root_t * (1 + tables.cosine[i]);
}

// The fixed point's two integrals, of the forms A and B of the paper: A (which has the
// slope of the option match) converges quicker, but not at all for a rate far above vol^2.
template <class M>
SLUICE_HD double improved_level(const PutTerms& o, const Boundary& b, const AmericanTables& tables,
                                int i, bool form_a) {
  const double root = node_root(b, tables, i), tau = root * root, spread = o.rate - o.yield;
  const double at_end = (b.level[i] + o.log_start + spread * tau) / (o.vol * root);
  const double half = 0.5 * o.vol * root;
  const auto n_end = fast::normal<M>(at_end - half), d_end = fast::normal<M>(at_end + half);
  constexpr double kDensity = 0.3989422804014327;
  double numerator = form_a ? kDensity * n_end.bell / (o.vol * root) : n_end.below;
  double denominator = d_end.below + (form_a ? kDensity * d_end.bell / (o.vol * root) : 0);
  for (int j = 0; j < tables.points; ++j) {
    const double s = root * tables.sine[j], left_root = root * tables.cosine_of[j];
    const double left = left_root * left_root;  // s^2 = tau - left
    const double deviation = o.vol * s;
    const double ratio = b.level[i] - level_at(b, tables.nodes, left_root);
    const double d = (ratio + spread * s * s) / deviation, h = 0.5 * deviation;
    const auto down = fast::normal<M>(d - h), up = fast::normal<M>(d + h);
    const double w = tau * tables.weight[j], density = kDensity / deviation;
    numerator +=
        w * o.rate * fast::exp<M>(o.rate * left) * (form_a ? density * down.bell : down.below);
    denominator +=
        w * o.yield * fast::exp<M>(o.yield * left) * (up.below + (form_a ? density * up.bell : 0));
  }
  const double level = std::log(numerator / denominator) - spread * tau - o.log_start;
  return level < 0 ? (level > -700 ? level : -700) : level >= 0 ? 0 : -700;
}

// What the QD+ approximation (Li 2010) is zero at: the start of the iteration.
template <class M>
SLUICE_HD double qd_plus(const PutTerms& o, double tau, double log_price) {
  const double spot = std::exp(log_price);  // strike is 1
  double g[kGreeks];
  greeks<M, double>(-1, spot, 1, tau, o.rate, o.yield, o.vol, g);
  const double h = 1 - std::exp(-o.rate * tau), a = 2 * o.rate / (o.vol * o.vol);
  const double b = 2 * (o.rate - o.yield) / (o.vol * o.vol) - 1;
  const double root = std::sqrt(b * b + 4 * a / h), lambda = -0.5 * (b + root);
  const double slope = a / (h * h * root), gain = 1 - spot - g[0];
  const double c =
      -(1 - h) * a / (2 * lambda + b) *
      (1 / h - std::exp(o.rate * tau) * g[4] / (o.rate * gain) + slope / (2 * lambda + b));
  return spot * (1 + g[1]) + (lambda + c) * gain;
}

// A few rounds of bisection and of false position (in the form that halves the end that
// stays): rough is enough to start from, and the root never leaves its bracket.
template <class M>
SLUICE_HD double start_level(const PutTerms& o, double tau, double above) {
  double width = 0.25 * o.vol * std::sqrt(tau), low = above - width, high = above;
  double at_low = qd_plus<M>(o, tau, o.log_start + low);
  for (int i = 0; i < 14 && !(at_low < 0); ++i) {
    high = low;
    width *= 2;
    low -= width;
    at_low = qd_plus<M>(o, tau, o.log_start + low);
  }
  double at_high = qd_plus<M>(o, tau, o.log_start + high);
  if (!(at_low < 0 && at_high > 0)) return high;
  for (int i = 0; i < 8; ++i) {
    const double middle =
        i < 3 ? 0.5 * (low + high) : (low * at_high - high * at_low) / (at_high - at_low);
    const double f = qd_plus<M>(o, tau, o.log_start + middle);
    if (f < 0) {
      low = middle;
      at_low = f;
      at_high *= i < 3 ? 1 : 0.5;
    } else {
      high = middle;
      at_high = f;
      at_low *= i < 3 ? 1 : 0.5;
    }
  }
  return (low * at_high - high * at_low) / (at_high - at_low);
}

template <class M>
SLUICE_HD void find_boundary(const PutTerms& o, const AmericanTables& tables, Boundary& b) {
  const int n = tables.nodes;
  b.level[n] = 0;  // at expiry
  for (int i = n - 1; i >= 0; --i) {
    const double root = node_root(b, tables, i);
    b.level[i] = start_level<M>(o, root * root, b.level[i + 1]);
  }
  const bool form_a = o.rate < 4 * o.vol * o.vol;
  for (int k = 0; k < (form_a ? 1 : 2) * tables.iterations; ++k) {
    fit(b, tables);
    double next[kMostNodes];
    for (int i = 0; i < n; ++i) next[i] = improved_level<M>(o, b, tables, i, form_a);
    for (int i = 0; i < n; ++i) b.level[i] = next[i];
  }
  fit(b, tables);
}

// What the right to exercise early adds, for a price above the boundary. strike is 1.
template <class M>
SLUICE_HD double premium(const PutTerms& o, const AmericanTables& tables, const Boundary& b,
                         double log_price) {
  double sum = 0;
  const double t = b.root_t * b.root_t, spot = std::exp(log_price);
  for (int j = 0; j < tables.final_points; ++j) {
    const double s = b.root_t * tables.final_sine[j], gone = s * s;
    const double level = level_at(b, tables.nodes, b.root_t * tables.final_cosine[j]);
    const double deviation = o.vol * s, h = 0.5 * deviation;
    const double d = (log_price - o.log_start - level + (o.rate - o.yield) * gone) / deviation;
    const auto down = fast::normal<M>(d - h), up = fast::normal<M>(d + h);
    sum += t * tables.final_weight[j] *
           (o.rate * fast::exp<M>(-o.rate * gone) * down.above -
            o.yield * spot * fast::exp<M>(-o.yield * gone) * up.above);
  }
  return sum;
}

// The best moment when nothing is uncertain: at once, at the end, or where the value's
// slope in time is zero.
SLUICE_HD inline double certain_put(double spot, double strike, double t, double rate,
                                    double yield) {
  const auto at = [&](double when) {
    return strike * std::exp(-rate * when) - spot * std::exp(-yield * when);
  };
  double best = 0;
  best = at(0) > best ? at(0) : best;
  best = at(t) > best ? at(t) : best;
  const double turn = std::log(rate * strike / (yield * spot)) / (rate - yield);
  if (turn > 0 && turn < t && at(turn) > best) best = at(turn);
  return best;
}

template <class M>
SLUICE_HD double american_put(double spot, double strike, double t, double rate, double yield,
                              double vol, const AmericanTables& tables) {
  if (!(spot >= 0 && strike >= 0 && t >= 0 && vol >= 0 && spot < 1e300 && strike < 1e300 &&
        t < 1e6 && vol < 1e6 && std::fabs(rate) < 1e6 && std::fabs(yield) < 1e6))
    return NAN;
  if (strike == 0) return 0;
  if (spot == 0) return strike * (rate < 0 ? std::exp(-rate * t) : 1);
  if (vol * std::sqrt(t) < 1e-5) return certain_put(spot, strike, t, rate, yield);
  const double european = price<M, double>(spot, strike, t, rate, yield, vol).put;
  if (rate <= 0) return yield < rate ? NAN : european;
  PutTerms o{strike, rate, yield, vol, 0};
  o.log_start = yield > rate ? std::log(rate / yield) : 0;
  Boundary b;
  b.root_t = std::sqrt(t);
  find_boundary<M>(o, tables, b);
  const double log_price = std::log(spot / strike), now = strike - spot;
  if (log_price <= o.log_start + b.level[0]) return now;
  const double value = european + strike * premium<M>(o, tables, b, log_price);
  return value > now ? value : now;
}

}  // namespace sluice::market::formula
