// Indicators of several columns: high, low, close, volume.
#include "market/indicators/rules/averages_momentum-inl.h"

#if defined(SLUICE_MARKET_RANGES_VOLUME_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_RANGES_VOLUME_INL_H_
#undef SLUICE_MARKET_RANGES_VOLUME_INL_H_
#else
#define SLUICE_MARKET_RANGES_VOLUME_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

template <class V>
SLUICE_RULE V true_range(V high, V low, V close_before) {
  return larger(larger(high - low, magnitude(close_before - high)), magnitude(close_before - low));
}

template <class V, RangeForm kForm>
struct RangeRule {
  static constexpr bool kNatr = kForm == RangeForm::natr, kUsesRing = false;
  static constexpr int kInputs = 3, kOutputs = 1, kTaken = kNatr ? 2 : 1, kStateValues = 1;
  static constexpr int kBefore = 2;  // the input whose bar before gather() needs
  V before = V(0);
  Wilder<V> ranges;
  bool begun = false;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V taken[kTaken];
    gather(in, before, taken);
    before = in[kBefore];
    take(p, taken, ring, out);
  }

  template <class W>
  SLUICE_RULE static void gather(const W* in, W close_before, W* taken) {
    taken[0] = true_range(in[0], in[1], close_before);
    if constexpr (kNatr) taken[1] = in[2];
  }

  // The range of the first bar does not count: it has no close before.
  template <class R>
  SLUICE_RULE void take(const Plan& p, const V* taken, R, V* out) {
    if (!begun) {
      begun = true;
      return;
    }
    if constexpr (kForm == RangeForm::trange) {
      out[0] = taken[0];
      return;
    }
    out[0] = ranges.update(p.n[0], p.k[0], taken[0]) * V(p.k[1]);
    if constexpr (kNatr) {
      const V close = taken[1], share = quotient(out[0], close) * V(100), none = out[0] - out[0];
      out[0] = pick_lt(magnitude(close), V(kEpsilon), none, share);
    }
  }

  SLUICE_RULE void settle() {
    ranges.settle();
    begun = true;
  }
};

// ADX and what it is made of. Where nothing moves, DX and ADX keep their value. A NaN stays in the
// sum of ranges, and all are one from then on.
template <class V, TrendForm kForm>
struct TrendRule {
  static constexpr int kInputs = 3, kOutputs = 1, kStateValues = 8;
  static constexpr bool kUsesRing = false;
  V high = V(0), low = V(0), close = V(0);
  Wilder<V> up, down, range;  // sums of n - 1 values at first
  V dx = V(0), adx = V(0);
  int seen = 0;  // of bars, then of DX values

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R, V* out) {
    const V rise = in[0] - high, fall = low - in[1];
    const V tr = true_range(in[0], in[1], close);
    high = in[0], low = in[1], close = in[2];
    if (seen == 0) {
      ++seen;
      return;
    }
    const V zero = V(0);
    const int n = p.n[0];
    up.update(n - 1, p.k[0], pick_lt(zero, rise, pick_lt(fall, rise, rise, zero), zero));
    down.update(n - 1, p.k[0], pick_lt(zero, fall, pick_lt(rise, fall, fall, zero), zero));
    range.update(n - 1, p.k[0], tr);
    if (seen < n)
      ++seen;
    else
      finish(p, out);
  }

  SLUICE_RULE void finish(const Plan& p, V* out) {
    if constexpr (kForm == TrendForm::plus_di || kForm == TrendForm::minus_di) {
      const V side = kForm == TrendForm::plus_di ? up.sum : down.sum;
      const V share = quotient(side, range.sum) * V(100), none = range.sum - range.sum;
      out[0] = pick_lt(V(kEpsilon), magnitude(range.sum), share, none);
      return;
    }
    const V both = up.sum + down.sum, limit = V(kEpsilon);
    // Each is 0 or below where there is no direction.
    const V some_range = magnitude(range.sum) - limit;
    const V some_move = both * V(100) - limit * range.sum;
    const V ratio = quotient(magnitude(up.sum - down.sum), both) * V(100);
    const V gap = range.sum - range.sum;  // 0, or a NaN
    dx = where(some_range, some_move, ratio, dx) + gap;
    out[0] = dx;
    if constexpr (kForm == TrendForm::adx) {
      out[0] = adx = where(some_range, some_move, next(p, ratio), adx) + gap;
    }
  }

  SLUICE_RULE static V where(V first, V second, V yes, V no) {
    return pick_lt(V(0), first, pick_lt(V(0), second, yes, no), no);
  }

  SLUICE_RULE V next(const Plan& p, V ratio) {
    const int n = p.n[0];
    if (seen >= 2 * n) return adx * V(p.k[0]) + ratio * V(p.k[1]);
    ++seen;
    return adx + ratio * V(p.k[1]);
  }

  SLUICE_RULE void settle() {
    up.settle(), down.settle(), range.settle();
    seen = kSettled;
  }
};

template <class V, ExtremeForm kForm>
struct ExtremeRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = true;
  Extreme<V, kForm == ExtremeForm::max> window;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = window.template update<kBlockEnds>(p.n[0], in[0], ring);
  }

  SLUICE_RULE int block_remaining(const Plan& p) const { return p.n[0] - 1 - window.at; }
};

// The position of the close between the lowest low and the highest high, smoothed twice.
template <class V>
struct Stochastic {
  Extreme<V, true> highest;
  Extreme<V, false> lowest;
  AnyAverage<V> slow_k, slow_d;
  int bars = 0, values = 0;

  // Keeps 2 fastk + slowk + slowd values. Periods in p.n[0..2], averages in `types`.
  template <class R>
  SLUICE_RULE void update(const int* n, Average k_type, Average d_type, V high, V low, V close,
                          R ring, V* out) {
    const V top = highest.update(n[0], high, ring);
    const V bottom = lowest.update(n[0], low, ring + n[0]);
    if (++bars < n[0]) return;
    bars = n[0];
    const V unit = (top - bottom) * V(0.01), off = close - bottom;
    const V k = pick_lt(magnitude(unit), V(kEpsilon), off - off, quotient(off, unit));
    out[0] = slow_k.update(k_type, n[1], k, ring + 2 * n[0]);
    if (++values < n[1]) return;
    values = n[1];
    out[1] = slow_d.update(d_type, n[2], out[0], ring + (2 * n[0] + n[1]));
  }
};

template <class V>
struct StochRule {
  static constexpr int kInputs = 3, kOutputs = 2, kStateValues = 4;
  static constexpr bool kUsesRing = true;
  Stochastic<V> stochastic;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    stochastic.update(p.n, Average(p.n[3] / 16), Average(p.n[3] % 16), in[0], in[1], in[2], ring,
                      out);
  }
};

// The fast stochastic of the RSI. n[3] is the RSI's period.
template <class V>
struct StochRsiRule {
  static constexpr int kInputs = 1, kOutputs = 2, kStateValues = 7;
  static constexpr bool kUsesRing = true;
  RsiRule<V> rsi;
  Stochastic<V> stochastic;
  int bars = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V value = V(0);
    Plan strength = p;
    strength.n[0] = p.n[3];
    rsi.update(strength, in, ring, &value);
    if (bars < p.n[3]) {
      ++bars;
      return;
    }
    stochastic.update(p.n, Average::sma, Average(p.form), value, value, value, ring, out);
  }
};

template <class V>
struct WillrRule {
  static constexpr int kInputs = 3, kOutputs = 1, kRaw = 3, kStateValues = 2;
  static constexpr bool kUsesRing = true;
  Extreme<V, true> highest;
  Extreme<V, false> lowest;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V raw[kRaw];
    advance(p, in, ring, raw);
    finish(p, raw, out);
  }

  template <class R>
  SLUICE_RULE void advance(const Plan& p, const V* in, R ring, V* raw) {
    raw[0] = highest.update(p.n[0], in[0], ring);
    raw[1] = lowest.update(p.n[0], in[1], ring + p.n[0]);
    raw[2] = in[2];
  }

  template <class W>
  SLUICE_RULE static void finish(const Plan&, const W* raw, W* out) {
    const W unit = (raw[0] - raw[1]) * W(-0.01), off = raw[0] - raw[2];
    out[0] = pick_lt(magnitude(unit), W(kEpsilon), off - off, quotient(off, unit));
  }
};

// The mean absolute deviation has no running form: each bar reads its window twice.
template <class V>
struct CciRule {
  static constexpr int kInputs = 3, kOutputs = 1, kStateValues = 2;
  static constexpr bool kUsesRing = true;
  int at = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    const int n = p.n[0];
    const V typical = quotient(in[0] + in[1] + in[2], V(3));
    ring[at] = typical;
    at = at + 1 < n ? at + 1 : 0;
    V sum = V(0), deviation = V(0);
    for (int i = 0; i < n; ++i) sum = sum + ring[i];
    const V mean = quotient(sum, V(n));
    for (int i = 0; i < n; ++i) deviation = deviation + magnitude(ring[i] - mean);
    const V off = typical - mean;
    const V value = quotient(off, deviation * V(p.k[0]));
    const V zero = V(0), limit = magnitude(mean) * V(p.k[1]);  // what rounding makes
    out[0] = pick_lt(magnitude(off), limit, zero, pick_lt(deviation, limit, zero, value));
  }
};

template <class V>
struct ObvRule {
  static constexpr int kInputs = 2, kOutputs = 1, kStateValues = 2;
  static constexpr bool kUsesRing = false;
  V before = V(0), volume = V(0);
  bool begun = false;

  template <class R>
  SLUICE_RULE void update(const Plan&, const V* in, R, V* out) {
    const V fallen = pick_lt(in[0], before, volume - in[1], volume);
    volume = begun ? pick_lt(before, in[0], volume + in[1], fallen) + (in[0] - in[0]) : in[1];
    before = in[0];
    begun = true;
    out[0] = volume;
  }
};

// The average over the last n[0] bars, or over all when that is 0. NaN while nothing was traded.
template <class V>
struct VwapRule {
  static constexpr int kInputs = 4, kOutputs = 1, kStateValues = 2;
  static constexpr bool kUsesRing = true;
  Sum<V> value, volume;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    const V typical = (in[0] + in[1] + in[2]) * V(1.0 / 3);
    if (p.n[0] == 0) {
      value.head = value.head + typical * in[3];
      volume.head = volume.head + in[3];
      out[0] = quotient(value.head, volume.head);
    } else {
      const V bought = value.update(p.n[0], typical * in[3], ring);
      out[0] = quotient(bought, volume.update(p.n[0], in[3], ring + p.n[0]));
    }
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
