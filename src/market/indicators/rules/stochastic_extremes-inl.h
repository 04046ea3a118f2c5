// MAX, MIN, STOCH, STOCHF, STOCHRSI and WILLR.
#include "market/indicators/rules/rsi_momentum-inl.h"

#if defined(SLUICE_MARKET_STOCHASTIC_EXTREMES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_STOCHASTIC_EXTREMES_INL_H_
#undef SLUICE_MARKET_STOCHASTIC_EXTREMES_INL_H_
#else
#define SLUICE_MARKET_STOCHASTIC_EXTREMES_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

template <class V, ExtremeForm kForm>
struct ExtremeRule {
  static constexpr int kInputs = 1, kOutputs = 1, kStateValues = 1;
  static constexpr bool kUsesRing = true;
  RollingExtreme<V, kForm == ExtremeForm::max> window;

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    out[0] = window.template update<kBlockEnds>(p.n[0], in[0], ring);
  }

  SLUICE_RULE int block_remaining(const Plan& p) const { return p.n[0] - 1 - window.at; }
};

// The position of the close between the lowest low and the highest high, smoothed twice.
template <class V>
struct Stochastic {
  RollingExtreme<V, true> highest;
  RollingExtreme<V, false> lowest;
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
    const V none = rounding_of(top, 0.02 * kRounding);
    const V k = pick_lt(magnitude(unit), none, off - off, quotient(off, unit));
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
  RollingExtreme<V, true> highest;
  RollingExtreme<V, false> lowest;

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
    const W none = rounding_of(raw[0], 0.02 * kRounding);
    out[0] = pick_lt(magnitude(unit), none, off - off, quotient(off, unit));
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
