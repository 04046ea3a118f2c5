// The indicators as state machines: one struct each, whose update() takes one bar and gives
// the outputs, which count from the plan's lookback on. The same code runs one series at a
// time (Stream), lanes of many on the CPU and a thread of each on a GPU, so all agree.
// Branches depend on time alone, never on values, since the lanes of V share them. kKeeps:
// the rule uses its ring.
#include "market/indicators/rules_window-inl.h"

#if defined(SLUICE_MARKET_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_RULES_INL_H_
#undef SLUICE_MARKET_RULES_INL_H_
#else
#define SLUICE_MARKET_RULES_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// Exponential average that begins with the mean of the first n values.
template <class V>
struct Smooth {
  V value = V(0);
  int seen = 0;  // up to n

  SLUICE_RULE V update(int n, double factor, V x) {
    if (seen >= n) {
      value = (x - value) * V(factor) + value;
    } else {
      value = value + x;
      if (++seen == n) value = quotient(value, V(n));
    }
    return value;
  }
};

// Wilder's running sum: of the first n values, then each bar an n-th part goes and the new
// value comes. Its n-th part is Wilder's average.
template <class V>
struct Wilder {
  V sum = V(0);
  int seen = 0;

  SLUICE_RULE V update(int n, double keep, V x) {
    if (seen >= n) {
      sum = sum * V(keep) + x;
    } else {
      sum = sum + x;
      ++seen;
    }
    return sum;
  }
};

// Any of the averages that `matype` may name. Keeps n values.
template <class V>
struct AnyAverage {
  Sum<V> plain;
  Smooth<V> smooth;
  WeightedSum<V> weighted;

  template <class R>
  SLUICE_RULE V update(Average type, int n, V x, R ring) {
    if (type == Average::sma) return plain.update(n, x, ring) * V(1.0 / n);
    if (type == Average::ema) return smooth.update(n, 2.0 / (n + 1), x);
    return weighted.update(n, x, ring) * V(2.0 / (double(n) * (n + 1)));
  }
};

template <class V>
struct SmaRule {
  static constexpr int kInputs = 1, kOutputs = 1;
  static constexpr bool kKeeps = true;
  Sum<V> sum;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = sum.update(p.n[0], in[0], ring) * V(p.k[0]);
  }
};

template <class V>
struct EmaRule {
  static constexpr int kInputs = 1, kOutputs = 1;
  static constexpr bool kKeeps = false;
  Smooth<V> average;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    out[0] = average.update(p.n[0], p.k[0], in[0]);
  }
};

template <class V>
struct WmaRule {
  static constexpr int kInputs = 1, kOutputs = 1;
  static constexpr bool kKeeps = true;
  WeightedSum<V> sum;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = sum.update(p.n[0], in[0], ring) * V(p.k[0]);
  }
};

// The first means of both averages end on the same bar, so the fast one begins later.
template <class V>
struct MacdRule {
  static constexpr int kInputs = 1, kOutputs = 3;
  static constexpr bool kKeeps = false;
  Smooth<V> fast, slow, signal;
  int waited = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    slow.update(p.n[1], p.k[1], in[0]);
    if (waited < p.n[1] - p.n[0]) {
      ++waited;
      return;
    }
    fast.update(p.n[0], p.k[0], in[0]);
    if (slow.seen < p.n[1]) return;
    out[0] = fast.value - slow.value;
    out[1] = signal.update(p.n[2], p.k[2], out[0]);
    out[2] = out[0] - out[1];
  }
};

// BBANDS, STDDEV, VAR, z-score. A variance under k[3] is taken for 0 (TA-Lib's rule, when
// asked for).
template <class V, SpreadForm kForm>
struct SpreadRule {
  static constexpr int kInputs = 1, kOutputs = kForm == SpreadForm::bands ? 3 : 1;
  static constexpr bool kKeeps = true;
  Moments<V> window;
  AnyAverage<V> middle;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    window.update(p.n[0], p.k[0], in[0], ring);
    const V variance = pick_lt(window.variance, V(p.k[3]), V(0), window.variance);
    if constexpr (kForm == SpreadForm::bands) {
      bands(p, in[0], root(variance), ring, out);
    } else if constexpr (kForm == SpreadForm::deviation) {
      out[0] = root(variance) * V(p.k[1]);
    } else if constexpr (kForm == SpreadForm::variance) {
      out[0] = variance;
    } else {
      const V score = quotient(in[0] - window.mean, root(variance));
      out[0] = pick_lt(V(0), variance, score, variance);  // 0, or a NaN, where there is none
    }
  }

  template <class R>
  SLUICE_RULE void bands(const Plan& p, V x, V deviation, R ring, V* out) {
    V centre = window.mean;
    if (Average(p.n[1]) != Average::sma)
      centre = middle.update(Average(p.n[1]), p.n[0], x, ring + 2 * p.n[0]);
    out[0] = centre + deviation * V(p.k[1]);
    out[1] = centre;
    out[2] = centre - deviation * V(p.k[2]);
  }
};

// Sums in place of averages: their ratio is the same.
template <class V>
struct RsiRule {
  static constexpr int kInputs = 1, kOutputs = 1;
  static constexpr bool kKeeps = false;
  V before = V(0);
  Wilder<V> gains, losses;
  bool begun = false;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    const V x = in[0];
    const V moved = x - before;
    before = x;
    if (!begun) {
      begun = true;
      return;
    }
    const V gain = pick_lt(moved, V(0), V(0), moved);
    gains.update(p.n[0], p.k[0], gain);
    losses.update(p.n[0], p.k[0], gain - moved);
    const V all = gains.sum + losses.sum;
    out[0] = pick_lt(V(0), all, quotient(gains.sum * V(100), all), V(0));
  }
};

template <class V, ChangeForm kForm>
struct ChangeRule {
  static constexpr int kInputs = 1, kOutputs = 1;
  static constexpr bool kKeeps = true;
  Delay<V> delay;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    const V x = in[0], old = delay.update(p.n[0], x, ring);
    if constexpr (kForm == ChangeForm::mom) {
      out[0] = x - old;
    } else {
      const V size = magnitude(old);
      out[0] = pick_lt(V(0), size, ratio(x, old), size);  // 0 for 0, a NaN for a NaN
    }
  }

  SLUICE_RULE static V ratio(V x, V old) {
    if constexpr (kForm == ChangeForm::roc) return (quotient(x, old) - V(1)) * V(100);
    if constexpr (kForm == ChangeForm::rocp) return quotient(x - old, old);
    if constexpr (kForm == ChangeForm::rocr100) return quotient(x, old) * V(100);
    return quotient(x, old);
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
