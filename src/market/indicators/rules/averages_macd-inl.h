// The indicators as state machines: one struct each, whose update() takes one bar and gives
// the outputs, which count from the plan's lookback on. The same code runs one series at a
// time (Stream), lanes of many on the CPU and a thread of each on a GPU, so all agree.
// Branches depend on time alone, never on values, since the lanes of V share them. kUsesRing:
// the rule uses its ring. settle(), where there is one, may be called once the look-back is
// over: the rule then no longer checks for it. Where a rule has advance() and finish(), update()
// calls both: only advance() depends on the bar before. Where it has block_remaining(), that many
// bars may be updated with kBlockEnds false. kStateValues is the number of values that are carried
// from bar to bar.
//
// Steps that do not depend on the bar before can run for consecutive bars as well as for segments.
// Where a rule has gather() and take(), or make() and widen(), update() calls both, with kTaken or
// kMade values in between; refine() completes one of them, kRefined.
#include "market/indicators/rules/rolling_windows-inl.h"

#if defined(SLUICE_MARKET_AVERAGES_MACD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_AVERAGES_MACD_INL_H_
#undef SLUICE_MARKET_AVERAGES_MACD_INL_H_
#else
#define SLUICE_MARKET_AVERAGES_MACD_INL_H_
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

  SLUICE_RULE void settle() { seen = kSettled; }
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

  SLUICE_RULE void settle() { seen = kSettled; }
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
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = true;
  Sum<V> sum;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = sum.template update<kBlockEnds>(p.n[0], in[0], ring) * V(p.k[0]);
  }

  SLUICE_RULE int block_remaining(const Plan& p) const { return p.n[0] - 1 - sum.at; }
};

template <class V>
struct EmaRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = false;
  Smooth<V> average;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    out[0] = average.update(p.n[0], p.k[0], in[0]);
  }

  SLUICE_RULE void settle() { average.settle(); }
};

template <class V>
struct WmaRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 2;
  static constexpr bool kUsesRing = true;
  WeightedSum<V> sum;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = sum.template update<kBlockEnds>(p.n[0], in[0], ring) * V(p.k[0]);
  }

  SLUICE_RULE int block_remaining(const Plan& p) const { return p.n[0] - 1 - sum.at; }
};

// The first means of both averages end on the same bar, so the fast one begins later.
template <class V>
struct MacdRule {
  static constexpr int kInputs = 1, kOutputs = 3, kMade = 2, kStateValues = 3;
  static constexpr bool kUsesRing = false;
  Smooth<V> fast, slow, signal;
  int waited = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V made[kMade] = {V(0), V(0)};
    make(p, in, ring, made);
    widen(p, made, out);
  }

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void make(const Plan& p, const V* in, R, V* made) {
    slow.update(p.n[1], p.k[1], in[0]);
    if (waited < p.n[1] - p.n[0]) {
      ++waited;
      return;
    }
    fast.update(p.n[0], p.k[0], in[0]);
    if (slow.seen < p.n[1]) return;
    made[0] = fast.value - slow.value;
    made[1] = signal.update(p.n[2], p.k[2], made[0]);
  }

  template <class W>
  SLUICE_RULE static void widen(const Plan&, const W* made, W* out) {
    out[0] = made[0];
    out[1] = made[1];
    out[2] = made[0] - made[1];
  }

  SLUICE_RULE void settle() {
    fast.settle(), slow.settle(), signal.settle();
    waited = kSettled;
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
