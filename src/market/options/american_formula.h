// The method of Andersen, Lake and Offengenden for one option, on CPU and GPU. Only puts: a
// call on (spot, strike, rate, yield) is a put on (strike, spot, yield, rate).
#pragma once

#include "market/options/black_scholes_formula.h"

namespace sluice::market::formula {

inline constexpr int kMaxNodes = 24, kMaxPoints = 48, kMaxFinalPoints = 96;

// Quadrature and Chebyshev nodes; the same for all options of a call.
struct AmericanTables {
  int nodes, iterations, points, final_points;
  int call;
  // An integral over [0, t] is taken in the angle a with t' = t cos^2 a, in which the
  // integrands have no root left at either end.
  double sine[kMaxPoints], cosine_of[kMaxPoints], weight[kMaxPoints];
  double final_sine[kMaxFinalPoints], final_cosine[kMaxFinalPoints];
  double final_weight[kMaxFinalPoints];
  double cosine[2 * kMaxNodes];  // cos(pi i / nodes)
};

struct PutTerms {
  double rate, yield, vol;
  double log_start;  // log of the boundary's limit at expiry, over strike
};

// L(t) = log(boundary / its limit at expiry) <= 0 at time t to expiry: sqrt(L^2), L^2 being
// a Chebyshev series in sqrt(t).
struct Boundary {
  double series[kMaxNodes + 1];
  double level[kMaxNodes + 1];  // L at the nodes
  double root_t;                // of the option
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

// sqrt(t) at a node, over the option's.
SLUICE_HD inline double node_share(const AmericanTables& tables, int i) {
  return 0.5 * (1 + tables.cosine[i]);
}

// The fixed point's two integrals, of the forms A and B of the paper: A (which has the
// slope of the option match) converges faster, but not at all for a rate far above vol^2.
SLUICE_HD inline bool takes_form_a(double rate, double vol) { return rate < 4 * vol * vol; }

struct Integrals {
  double numerator, denominator;
};

// Adds one point, where the boundary is d deviations away; h is half a deviation.
template <class M>
SLUICE_FLAT void add_point(bool form_a, double d, double h, double inverse_deviation,
                           double of_rate, double of_yield, Integrals& sums) {
  const auto down = fast::normal<M>(d - h), up = fast::normal<M>(d + h);
  const double density = 0.3989422804014327 * inverse_deviation;
  sums.numerator += of_rate * (form_a ? density * down.bell : down.below);
  sums.denominator += of_yield * (up.below + (form_a ? density * up.bell : 0));
}

SLUICE_FLAT double possible_level(double level) {
  const double bounded = level > -700 ? level : -700;  // of a NaN, too
  return bounded < 0 ? bounded : 0;
}

template <class M>
SLUICE_HD double improved_level(const PutTerms& o, const Boundary& b, const AmericanTables& tables,
                                int i, bool form_a) {
  const double root = b.root_t * node_share(tables, i), tau = root * root;
  const double spread = o.rate - o.yield, inverse = 1 / (o.vol * root);
  const double at_end = (b.level[i] + o.log_start + spread * tau) * inverse;
  Integrals sums{};
  add_point<M>(form_a, at_end, 0.5 * o.vol * root, inverse, 1, 1, sums);
  for (int j = 0; j < tables.points; ++j) {
    const double s = root * tables.sine[j], left_root = root * tables.cosine_of[j];
    const double left = left_root * left_root;  // s^2 = tau - left
    const double deviation = o.vol * s, w = tau * tables.weight[j];
    const double ratio = b.level[i] - level_at(b, tables.nodes, left_root);
    add_point<M>(form_a, (ratio + spread * s * s) / deviation, 0.5 * deviation, 1 / deviation,
                 w * o.rate * fast::exp<M>(o.rate * left),
                 w * o.yield * fast::exp<M>(o.yield * left), sums);
  }
  return possible_level(std::log(sums.numerator / sums.denominator) - spread * tau - o.log_start);
}

// Terms of the QD+ approximation (Li 2010) that do not depend on the price, at one time to
// expiry. The iteration starts at its root.
struct QdTerms {
  double inverse, half;      // 1 / deviation, deviation / 2
  double drift;              // rate - yield, for all the time
  double discount, payout;   // what rate and yield leave of 1
  double slope;              // of theta: vol / (2 sqrt(tau)), discounted, over sqrt(2 pi)
  double on_gain, on_theta;  // factors
};

template <class M>
SLUICE_FLAT QdTerms qd_terms(const PutTerms& o, double root_tau) {
  const double tau = root_tau * root_tau, deviation = o.vol * root_tau;
  const double per_variance = 2 / (o.vol * o.vol);
  QdTerms q;
  q.inverse = 1 / deviation;
  q.half = 0.5 * deviation;
  q.drift = (o.rate - o.yield) * tau;
  q.discount = fast::exp<M>(-o.rate * tau);
  q.payout = fast::exp<M>(-o.yield * tau);
  q.slope = 0.5 * 0.3989422804014327 * o.vol / root_tau * q.payout;
  const double h = 1 - q.discount, a = o.rate * per_variance;
  const double b = (o.rate - o.yield) * per_variance - 1;
  const double root = std::sqrt(b * b + 4 * a / h), lambda = -0.5 * (b + root);
  q.on_gain = lambda + q.discount * a / (root * h) * (1 - a / (h * root * root));
  q.on_theta = per_variance / root;
  return q;
}

// A call on a GPU: in place it takes twice the registers that all the rest does.
#ifdef __CUDACC__
#define SLUICE_CALLED SLUICE_HD __noinline__
#else
#define SLUICE_CALLED SLUICE_FLAT
#endif

template <class M>
SLUICE_CALLED double qd_plus(const PutTerms& o, const QdTerms& q, double level) {
  const double log_price = o.log_start + level, spot = fast::exp<M>(log_price);  // strike is 1
  const double d = (log_price + q.drift) * q.inverse;
  const auto up = fast::normal<M>(d + q.half);
  const double owed = q.discount * fast::normal<M>(d - q.half).above;
  const double held = q.payout * up.above, put = owed - spot * held;
  const double theta = o.rate * owed - spot * (o.yield * held + q.slope * up.bell);
  const double gain = 1 - spot - (put > 0 ? put : 0);
  return spot * (1 - held) + q.on_gain * gain - q.on_theta * theta;
}
#undef SLUICE_CALLED

// Levels between which QD+ is zero: below zero at `low`, above zero at `high`.
struct Bracket {
  double low, high, at_low, at_high, width;
};

// at_high is not known yet.
template <class M>
SLUICE_FLAT Bracket first_bracket(const PutTerms& o, const QdTerms& q, double above) {
  const double width = 0.5 * q.half, low = above - width;
  return {low, above, qd_plus<M>(o, q, low), 0, width};
}

SLUICE_FLAT bool too_high(const Bracket& b) { return !(b.at_low < 0); }

template <class M>
SLUICE_FLAT Bracket lowered(const PutTerms& o, const QdTerms& q, const Bracket& b) {
  const double low = b.low - 2 * b.width;
  return {low, b.low, qd_plus<M>(o, q, low), 0, 2 * b.width};
}

SLUICE_FLAT double crossing(const Bracket& b) {
  return (b.low * b.at_high - b.high * b.at_low) / (b.at_high - b.at_low);
}

// Bisection, or false position in the form that halves the end that stays.
template <class M>
SLUICE_FLAT Bracket narrowed(const PutTerms& o, const QdTerms& q, bool bisect, const Bracket& b) {
  const double middle = bisect ? 0.5 * (b.low + b.high) : crossing(b), keep = bisect ? 1 : 0.5;
  const double f = qd_plus<M>(o, q, middle);
  const bool below = f < 0;
  return {below ? middle : b.low, below ? b.high : middle, below ? f : keep * b.at_low,
          below ? keep * b.at_high : f, b.width};
}

inline constexpr int kLowerings = 14, kBisections = 3, kNarrowings = 8;

// A few rounds: rough is enough to start from, and the root never leaves its bracket.
template <class M>
SLUICE_HD double start_level(const PutTerms& o, double root_tau, double above) {
  const QdTerms q = qd_terms<M>(o, root_tau);
  Bracket b = first_bracket<M>(o, q, above);
  for (int i = 0; i < kLowerings && too_high(b); ++i) b = lowered<M>(o, q, b);
  b.at_high = qd_plus<M>(o, q, b.high);
  if (!(b.at_low < 0 && b.at_high > 0)) return b.high;
  for (int i = 0; i < kNarrowings; ++i) b = narrowed<M>(o, q, i < kBisections, b);
  return crossing(b);
}

template <class M>
SLUICE_HD void find_boundary(const PutTerms& o, const AmericanTables& tables, Boundary& b) {
  const int n = tables.nodes;
  b.level[n] = 0;  // at expiry
  for (int i = n - 1; i >= 0; --i)
    b.level[i] = start_level<M>(o, b.root_t * node_share(tables, i), b.level[i + 1]);
  const bool form_a = takes_form_a(o.rate, o.vol);
  for (int k = 0; k < (form_a ? 1 : 2) * tables.iterations; ++k) {
    fit(b, tables);
    double next[kMaxNodes];
    for (int i = 0; i < n; ++i) next[i] = improved_level<M>(o, b, tables, i, form_a);
    for (int i = 0; i < n; ++i) b.level[i] = next[i];
  }
  fit(b, tables);
}

// The rate at which exercise s^2 years from now adds value; `above` is the logarithm of the
// price over that of the boundary. strike is 1.
template <class M>
SLUICE_FLAT double exercise_gain(const PutTerms& o, double spot, double above, double s) {
  const double gone = s * s, deviation = o.vol * s, h = 0.5 * deviation;
  const double d = (above + (o.rate - o.yield) * gone) / deviation;
  const auto down = fast::normal<M>(d - h), up = fast::normal<M>(d + h);
  return o.rate * fast::exp<M>(-o.rate * gone) * down.above -
         o.yield * spot * fast::exp<M>(-o.yield * gone) * up.above;
}

// The early exercise premium for a price above the boundary.
template <class M>
SLUICE_HD double premium(const PutTerms& o, const AmericanTables& tables, const Boundary& b,
                         double log_price) {
  double sum = 0;
  const double t = b.root_t * b.root_t, spot = std::exp(log_price);
  for (int j = 0; j < tables.final_points; ++j) {
    const double level = level_at(b, tables.nodes, b.root_t * tables.final_cosine[j]);
    sum +=
        t * tables.final_weight[j] *
        exercise_gain<M>(o, spot, log_price - o.log_start - level, b.root_t * tables.final_sine[j]);
  }
  return sum;
}

struct Put {
  double spot, strike, t, rate, yield, vol;
};

SLUICE_HD inline bool is_valid(const Put& p) {
  return p.spot >= 0 && p.strike >= 0 && p.t >= 0 && p.vol >= 0 && p.spot < 1e300 &&
         p.strike < 1e300 && p.t < 1e6 && p.vol < 1e6 && std::fabs(p.rate) < 1e6 &&
         std::fabs(p.yield) < 1e6;
}

SLUICE_HD inline bool is_certain(const Put& p) { return p.vol * std::sqrt(p.t) < 1e-5; }

// A negative yield below the rate: with a rate above zero the fixed point does not converge,
// and with one of zero or below there are two boundaries.
SLUICE_HD inline bool is_unsupported(const Put& p) { return p.yield < 0 && p.yield < p.rate; }

// Exercising early pays only with a rate above zero (or in the cases that are unsupported).
SLUICE_HD inline bool has_boundary(const Put& p) {
  return is_valid(p) && p.spot > 0 && p.strike > 0 && !is_certain(p) && p.rate > 0 &&
         !is_unsupported(p);
}

SLUICE_HD inline PutTerms put_terms(const Put& p) {
  return {p.rate, p.yield, p.vol, p.yield > p.rate ? std::log(p.rate / p.yield) : 0};
}

// The best moment when nothing is uncertain: at once, at the end, or where the value's
// slope in time is zero.
SLUICE_HD inline double certain_put(const Put& p) {
  const auto at = [&](double when) {
    return p.strike * std::exp(-p.rate * when) - p.spot * std::exp(-p.yield * when);
  };
  double best = 0;
  best = at(0) > best ? at(0) : best;
  best = at(p.t) > best ? at(p.t) : best;
  const double turn = std::log(p.rate * p.strike / (p.yield * p.spot)) / (p.rate - p.yield);
  if (turn > 0 && turn < p.t && at(turn) > best) best = at(turn);
  return best;
}

// The value of a put that is exercised now; 0 out of the money.
SLUICE_FLAT double intrinsic(double spot, double strike) {
  return strike > spot ? strike - spot : 0;
}

template <class M>
SLUICE_HD double american_put(const Put& p, const AmericanTables& tables) {
  if (!is_valid(p)) return NAN;
  if (p.strike == 0) return 0;
  if (p.spot == 0) return p.strike * (p.rate < 0 ? std::exp(-p.rate * p.t) : 1);
  if (is_certain(p)) return certain_put(p);
  if (is_unsupported(p)) return NAN;
  const double european = price<M, double>(p.spot, p.strike, p.t, p.rate, p.yield, p.vol).put;
  if (p.rate <= 0) return european;
  const PutTerms o = put_terms(p);
  Boundary b;
  b.root_t = std::sqrt(p.t);
  find_boundary<M>(o, tables, b);
  const double log_price = std::log(p.spot / p.strike), now = intrinsic(p.spot, p.strike);
  if (log_price <= o.log_start + b.level[0]) return now;
  const double value = european + p.strike * premium<M>(o, tables, b, log_price);
  return value > now ? value : now;
}

}  // namespace sluice::market::formula
