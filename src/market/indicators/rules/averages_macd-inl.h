// Running averages (exponential, Wilder's, any that `matype` names), and SMA, EMA, WMA and MACD.
// dispatch_rules-inl.h explains the hooks of a rule.
#include "market/indicators/rules/rolling_windows-inl.h"

#if defined(SLUICE_MARKET_AVERAGES_MACD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_AVERAGES_MACD_INL_H_
#undef SLUICE_MARKET_AVERAGES_MACD_INL_H_
#else
#define SLUICE_MARKET_AVERAGES_MACD_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// The exponential average that begins with the mean of the first n values.
template <class V>
struct ExponentialAverage {
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

  SLUICE_RULE void settle() { seen = kSettled; }
};

// Wilder's running sum: that of the first n values, then each bar removes an n-th part and adds the
// new value. Its n-th part is Wilder's average.
template <class V>
struct WilderSum {
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

  SLUICE_RULE void settle() { seen = kSettled; }
};

// Any of the averages that `matype` may name. Keeps n values.
template <class V>
struct AnyAverage {
  RollingSum<V> plain;
  ExponentialAverage<V> smooth;
  RollingWeightedSum<V> weighted;

  template <class R>
  SLUICE_RULE V update(Average type, int n, V x, R ring) {
    if (type == Average::sma) return plain.update(n, x, ring) * V(1.0 / n);
    if (type == Average::ema) return smooth.update(n, 2.0 / (n + 1), x);
    return weighted.update(n, x, ring) * V(2.0 / (double(n) * (n + 1)));
  }
};

// A multiple of a sum over the window.
template <class V, class Sum>
struct WindowAverage {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = Sum::kStateValues;
  static constexpr bool kUsesRing = true;
  Sum sum;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = sum.template update<kBlockEnds>(p.n[0], in[0], ring) * V(p.k[0]);
  }

  SLUICE_RULE int block_remaining(const Plan& p) const { return p.n[0] - 1 - sum.at; }
};

template <class V>
struct SmaRule : WindowAverage<V, RollingSum<V>> {};

template <class V>
struct WmaRule : WindowAverage<V, RollingWeightedSum<V>> {};

template <class V>
struct EmaRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = false;
  ExponentialAverage<V> average;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    out[0] = average.update(p.n[0], p.k[0], in[0]);
  }

  SLUICE_RULE void settle() { average.settle(); }
};

// The first means of both averages end on the same bar, so the fast one begins later.
template <class V>
struct MacdRule {
  static constexpr int kInputs = 1, kOutputs = 3, kCompact = 2, kStateValues = 3;
  static constexpr bool kUsesRing = false;
  ExponentialAverage<V> fast, slow, signal;
  int waited = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V compact[kCompact] = {V(0), V(0)};
    update_compact(p, in, ring, compact);
    expand(p, compact, out);
  }

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update_compact(const Plan& p, const V* in, R, V* compact) {
    slow.update(p.n[1], p.k[1], in[0]);
    if (waited < p.n[1] - p.n[0]) {
      ++waited;
      return;
    }
    fast.update(p.n[0], p.k[0], in[0]);
    if (slow.seen < p.n[1]) return;
    compact[0] = fast.value - slow.value;
    compact[1] = signal.update(p.n[2], p.k[2], compact[0]);
  }

  template <class W>
  SLUICE_RULE static void expand(const Plan&, const W* compact, W* out) {
    out[0] = compact[0];
    out[1] = compact[1];
    out[2] = compact[0] - compact[1];
  }

  SLUICE_RULE void settle() {
    fast.settle(), slow.settle(), signal.settle();
    waited = kSettled;
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
