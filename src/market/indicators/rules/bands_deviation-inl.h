// BBANDS, STDDEV, VAR and the z-score.
#include "market/indicators/rules/averages_macd-inl.h"

#if defined(SLUICE_MARKET_BANDS_DEVIATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_BANDS_DEVIATION_INL_H_
#undef SLUICE_MARKET_BANDS_DEVIATION_INL_H_
#else
#define SLUICE_MARKET_BANDS_DEVIATION_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

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

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
