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

#if defined(SLUICE_MARKET_AVERAGES_MOMENTUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_AVERAGES_MOMENTUM_INL_H_
#undef SLUICE_MARKET_AVERAGES_MOMENTUM_INL_H_
#else
#define SLUICE_MARKET_AVERAGES_MOMENTUM_INL_H_
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

// BBANDS, STDDEV, VAR, z-score. A variance under k[3], 0 or more, is taken for 0 (rounding
// may make it negative; TA-Lib's rule, if requested). Bands do with n times the variance, which
// is a multiplication less: their k[1] to k[3] are for that.
template <class V, SpreadForm kForm>
struct SpreadRule {
  static constexpr bool kOther = kForm == SpreadForm::other_bands;
  static constexpr bool kBands = kForm == SpreadForm::bands || kOther, kUsesRing = true;
  static constexpr int kInputs = 1, kOutputs = kBands ? 3 : 1, kMade = kBands ? 2 : 1;
  static constexpr int kStateValues = kOther ? 5 : 3, kRefined = kMade - 1;
  static constexpr int kRaw = kOther || kForm == SpreadForm::score ? 4 : 3;
  struct None {};
  Moments<V> window;
  std::conditional_t<kOther, AnyAverage<V>, None> middle;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V raw[kRaw];
    advance(p, in, ring, raw);
    finish(p, raw, out);
  }

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void make(const Plan& p, const V* in, R ring, V* made) {
    V raw[kRaw];
    advance<kBlockEnds>(p, in, ring, raw);
    condense(p, raw, made);
  }

  // The window's centre and sums; the middle of bands, or the value to score.
  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void advance(const Plan& p, const V* in, R ring, V* raw) {
    window.template update<kBlockEnds>(p.n[0], in[0], ring, raw[1], raw[2]);
    raw[0] = window.centre;
    if constexpr (kForm == SpreadForm::score) raw[3] = in[0];
    if constexpr (kOther) raw[3] = middle.update(Average(p.n[1]), p.n[0], in[0], ring + 2 * p.n[0]);
  }

  template <class W>
  SLUICE_RULE static void finish(const Plan& p, const W* raw, W* out) {
    W made[kMade];
    condense(p, raw, made);
    made[kRefined] = refine(p, made[kRefined]);
    widen(p, made, out);
  }

  template <class W>
  SLUICE_RULE static void condense(const Plan& p, const W* raw, W* made) {
    const W offset = raw[1] * W(p.k[0]), mean = raw[0] + offset, min_variance = W(p.k[3]);
    if constexpr (kBands) {
      made[0] = mean;
      if constexpr (kOther) made[0] = raw[3];
      made[1] = minus_product(raw[2], raw[1], offset);
    } else {
      const W v = minus_product(raw[2] * W(p.k[0]), offset, offset);
      if constexpr (kForm == SpreadForm::deviation) {
        made[0] = v;
      } else if constexpr (kForm == SpreadForm::variance) {
        made[0] = pick_lt(v, min_variance, W(0), v);
      } else {
        const W deviation = root_from(min_variance, v), score = quotient(raw[3] - mean, deviation);
        made[0] = pick_lt(W(0), deviation, score, deviation);  // 0, or a NaN, where there is none
      }
    }
  }

  // Completes value kRefined of those made.
  template <class W>
  SLUICE_RULE static W refine(const Plan& p, W value) {
    if constexpr (kBands) return root_from(W(p.k[3]), value);
    if constexpr (kForm == SpreadForm::deviation) return root_from(W(p.k[3]), value) * W(p.k[1]);
    return value;
  }

  template <class W>
  SLUICE_RULE static void widen(const Plan& p, const W* made, W* out) {
    if constexpr (kBands) {
      out[0] = plus_product(made[0], made[1], W(p.k[1]));
      out[1] = made[0];
      out[2] = minus_product(made[0], made[1], W(p.k[2]));
    } else {
      out[0] = made[0];
    }
  }

  SLUICE_RULE int block_remaining(const Plan& p) const {
    return kOther ? 0 : p.n[0] - 1 - window.at;
  }
};

// Sums in place of averages: their ratio is the same.
template <class V>
struct RsiRule {
  static constexpr int kInputs = 1, kOutputs = 1, kRaw = 2, kStateValues = 3;
  static constexpr bool kUsesRing = false;
  V before = V(0);
  Wilder<V> gains, losses;
  bool begun = false;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V raw[kRaw];
    advance(p, in, ring, raw);
    finish(p, raw, out);
  }

  template <class R>
  SLUICE_RULE void advance(const Plan& p, const V* in, R, V* raw) {
    const V x = in[0];
    const V moved = begun ? x - before : V(0);
    before = x;
    if (begun) {
      const V gain = larger(moved, V(0));
      gains.update(p.n[0], p.k[0], gain);
      losses.update(p.n[0], p.k[0], gain - moved);
    }
    begun = true;
    raw[0] = gains.sum, raw[1] = losses.sum;
  }

  template <class W>
  SLUICE_RULE static void finish(const Plan&, const W* raw, W* out) {
    const W all = raw[0] + raw[1];
    out[0] = pick_lt(W(0), all, quotient(raw[0] * W(100), all), all);  // 0 for 0, a NaN for a NaN
  }

  SLUICE_RULE void settle() {
    gains.settle(), losses.settle();
    begun = true;
  }
};

template <class V, ChangeForm kForm>
struct ChangeRule {
  static constexpr int kInputs = 1, kOutputs = 1, kRaw = 2, kStateValues = 1;
  static constexpr bool kUsesRing = true;
  Delay<V> delay;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V raw[kRaw];
    advance(p, in, ring, raw);
    finish(p, raw, out);
  }

  template <class R>
  SLUICE_RULE void advance(const Plan& p, const V* in, R ring, V* raw) {
    raw[0] = in[0];
    raw[1] = delay.update(p.n[0], in[0], ring);
  }

  template <class W>
  SLUICE_RULE static void finish(const Plan&, const W* raw, W* out) {
    if constexpr (kForm == ChangeForm::mom) {
      out[0] = raw[0] - raw[1];
    } else {
      const W size = magnitude(raw[1]);
      out[0] = pick_lt(W(0), size, ratio(raw[0], raw[1]), size);  // 0 for 0, a NaN for a NaN
    }
  }

  template <class W>
  SLUICE_RULE static W ratio(W x, W old) {
    if constexpr (kForm == ChangeForm::roc) return (quotient(x, old) - W(1)) * W(100);
    if constexpr (kForm == ChangeForm::rocp) return quotient(x - old, old);
    if constexpr (kForm == ChangeForm::rocr100) return quotient(x, old) * W(100);
    return quotient(x, old);
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
