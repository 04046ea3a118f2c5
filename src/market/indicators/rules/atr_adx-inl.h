// TRANGE, ATR, NATR, ADX, DX, PLUS_DI and MINUS_DI.
#include "market/indicators/rules/averages_macd-inl.h"

#if defined(SLUICE_MARKET_ATR_ADX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_ATR_ADX_INL_H_
#undef SLUICE_MARKET_ATR_ADX_INL_H_
#else
#define SLUICE_MARKET_ATR_ADX_INL_H_
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
  static constexpr int kInputs = 3, kOutputs = 1, kGathered = kNatr ? 2 : 1, kStateValues = 1;
  static constexpr int kBefore = 2;  // the input whose bar before gather() needs
  V before = V(0);
  WilderSum<V> ranges;
  bool begun = false;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V gathered[kGathered];
    gather(in, before, gathered);
    before = in[kBefore];
    update_gathered(p, gathered, ring, out);
  }

  template <class W>
  SLUICE_RULE static void gather(const W* in, W close_before, W* gathered) {
    gathered[0] = true_range(in[0], in[1], close_before);
    if constexpr (kNatr) gathered[1] = in[2];
  }

  // The range of the first bar does not count: it has no close before.
  template <class R>
  SLUICE_RULE void update_gathered(const Plan& p, const V* gathered, R, V* out) {
    if (!begun) {
      begun = true;
      return;
    }
    if constexpr (kForm == RangeForm::trange) {
      out[0] = gathered[0];
      return;
    }
    out[0] = ranges.update(p.n[0], p.k[0], gathered[0]) * V(p.k[1]);
    if constexpr (kNatr) {
      const V close = gathered[1], share = quotient(out[0], close) * V(100), none = out[0] - out[0];
      out[0] = pick_lt(magnitude(close), V(kSmallest), none, share);
    }
  }

  SLUICE_RULE void settle() {
    ranges.settle();
    begun = true;
  }
};

// ADX and its parts. DX and ADX keep their value while nothing moves. A NaN stays in the sum of
// ranges, so that all outputs are NaN from then on.
template <class V, TrendForm kForm>
struct TrendRule {
  static constexpr int kInputs = 3, kOutputs = 1, kStateValues = 8;
  static constexpr bool kUsesRing = false;
  V high = V(0), low = V(0), close = V(0);
  WilderSum<V> up, down, range;  // sums of n - 1 values at first
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
      const V share = quotient(side, range.sum) * V(p.k[2]), none = range.sum - range.sum;
      out[0] = pick_lt(V(0), magnitude(range.sum), share, none);
      return;
    }
    const V both = up.sum + down.sum;
    // Each is 0 or below where there is no direction.
    const V some_range = magnitude(range.sum);
    const V some_move = both * V(100) - V(kRounding) * range.sum;
    const V ratio = quotient(magnitude(up.sum - down.sum), both) * V(100);
    const V gap = range.sum - range.sum;  // 0, or a NaN
    dx = where_both(some_range, some_move, ratio, dx) + gap;
    out[0] = dx;
    if constexpr (kForm == TrendForm::adx) {
      out[0] = adx = where_both(some_range, some_move, next(p, ratio), adx) + gap;
    }
  }

  SLUICE_RULE static V where_both(V first, V second, V yes, V no) {
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

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
