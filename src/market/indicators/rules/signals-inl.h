// Signals: 1 is long, -1 is short, 0 is out, at the close of their bar (a position can be taken on
// the next one). A signal is NaN where an input makes the indicator NaN.
#include "market/indicators/rules/bands_deviation-inl.h"
#include "market/indicators/rules/rsi_momentum-inl.h"

#if defined(SLUICE_MARKET_SIGNALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_SIGNALS_INL_H_
#undef SLUICE_MARKET_SIGNALS_INL_H_
#else
#define SLUICE_MARKET_SIGNALS_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// Is long while the price has risen by more than k[0] over n bars, short while it has fallen so
// far.
template <class V>
struct MomentumSignalRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = true;
  ChangeRule<V, ChangeForm::rocp> change;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V risen = V(0);
    change.update(p, in, ring, &risen);
    const V falling = pick_lt(risen, V(-p.k[0]), V(-1), V(0));
    out[0] = pick_lt(V(p.k[0]), risen, V(1), falling) + (risen - risen);
  }
};

// Enters against a z-score beyond k[1], leaves when it is back within k[2].
template <class V>
struct ReversionSignalRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 4;
  static constexpr bool kUsesRing = true;
  SpreadRule<V, SpreadForm::score> spread;
  V position = V(0);
  int bars = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V score = V(0);
    spread.update(p, in, ring, &score);
    if (++bars < p.n[0]) return;
    bars = p.n[0];
    const V kept = pick_lt(magnitude(score), V(p.k[2]), V(0), position);
    const V entered = pick_lt(V(p.k[1]), score, V(-1), kept);
    position = pick_lt(score, V(-p.k[1]), V(1), entered);
    out[0] = position + (score - score);
  }
};

// The trend rises while the fast average is above the slow one. In a rising trend, enters long when
// the RSI comes back up through k[3] (a dip has ended); in a falling one, enters short when the RSI
// comes down through 100 - k[3]. Leaves when the trend turns.
template <class V>
struct SwingSignalRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 7;
  static constexpr bool kUsesRing = false;
  ExponentialAverage<V> fast, slow;
  RsiRule<V> rsi;
  V before = V(50), position = V(0);
  int bars = 0;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    const V trend = fast.update(p.n[1], p.k[4], in[0]) - slow.update(p.n[2], p.k[5], in[0]);
    V now = V(50);
    rsi.update(p, in, ring, &now);
    const V earlier = before, zero = V(0);
    before = now;
    if (bars <= p.lookback) ++bars;
    if (bars <= p.lookback) return;
    const V low = V(p.k[3]), high = V(100 - p.k[3]);
    const V dip_over = pick_lt(earlier, low, pick_lt(now, low, zero, V(1)), zero);
    const V peak_over = pick_lt(high, earlier, pick_lt(high, now, zero, V(-1)), zero);
    const V up = pick_lt(zero, dip_over, V(1), pick_lt(position, zero, zero, position));
    const V down = pick_lt(peak_over, zero, V(-1), pick_lt(zero, position, zero, position));
    position = pick_lt(zero, trend, up, pick_lt(trend, zero, down, position));
    out[0] = position + (trend - trend);
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
