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

// BBANDS, STDDEV, VAR, z-score. A variance below k[3] counts as 0: rounding may make it negative,
// and TA-Lib has such a limit, which k[3] is if requested. Bands use n times the variance, which
// saves a multiplication: their k[1] to k[3] are scaled for it.
template <class V, SpreadForm kForm>
struct SpreadRule {
  static constexpr bool kOther = kForm == SpreadForm::other_bands;
  static constexpr bool kBands = kForm == SpreadForm::bands || kOther, kUsesRing = true;
  static constexpr int kInputs = 1, kOutputs = kBands ? 3 : 1, kCompact = kBands ? 2 : 1;
  static constexpr int kStateValues = kOther ? 5 : 3, kRefined = kCompact - 1;
  static constexpr int kRaw = kOther || kForm == SpreadForm::score ? 4 : 3;
  struct None {};
  RollingMoments<V> window;
  std::conditional_t<kOther, AnyAverage<V>, None> middle;

  template <class R>
  SLUICE_RULE void update(const Plan& p, const V* in, R ring, V* out) {
    V raw[kRaw];
    advance(p, in, ring, raw);
    finish(p, raw, out);
  }

  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void update_compact(const Plan& p, const V* in, R ring, V* compact) {
    V raw[kRaw];
    advance<kBlockEnds>(p, in, ring, raw);
    condense(p, raw, compact);
  }

  // Gives the window's centre and sums, and the middle of bands or the value to score.
  template <bool kBlockEnds = true, class R>
  SLUICE_RULE void advance(const Plan& p, const V* in, R ring, V* raw) {
    window.template update<kBlockEnds>(p.n[0], in[0], ring, raw[1], raw[2]);
    raw[0] = window.centre;
    if constexpr (kForm == SpreadForm::score) raw[3] = in[0];
    if constexpr (kOther) raw[3] = middle.update(Average(p.n[1]), p.n[0], in[0], ring + 2 * p.n[0]);
  }

  template <class W>
  SLUICE_RULE static void finish(const Plan& p, const W* raw, W* out) {
    W compact[kCompact];
    condense(p, raw, compact);
    compact[kRefined] = refine(p, compact[kRefined]);
    expand(p, compact, out);
  }

  template <class W>
  SLUICE_RULE static void condense(const Plan& p, const W* raw, W* compact) {
    const W offset = raw[1] * W(p.k[0]), mean = raw[0] + offset, min_variance = W(p.k[3]);
    if constexpr (kBands) {
      compact[0] = mean;
      if constexpr (kOther) compact[0] = raw[3];
      compact[1] = minus_product(raw[2], raw[1], offset);
    } else {
      const W v = minus_product(raw[2] * W(p.k[0]), offset, offset);
      if constexpr (kForm == SpreadForm::deviation) {
        compact[0] = v;
      } else if constexpr (kForm == SpreadForm::variance) {
        compact[0] = pick_lt(v, min_variance, W(0), v);
      } else {
        const W deviation = root_from(min_variance, v), score = quotient(raw[3] - mean, deviation);
        // Without a deviation the score is 0, or NaN.
        compact[0] = pick_lt(W(0), deviation, score, deviation);
      }
    }
  }

  // Completes value kRefined of the compact ones.
  template <class W>
  SLUICE_RULE static W refine(const Plan& p, W value) {
    if constexpr (kBands) return root_from(W(p.k[3]), value);
    if constexpr (kForm == SpreadForm::deviation) return root_from(W(p.k[3]), value) * W(p.k[1]);
    return value;
  }

  template <class W>
  SLUICE_RULE static void expand(const Plan& p, const W* compact, W* out) {
    if constexpr (kBands) {
      out[0] = plus_product(compact[0], compact[1], W(p.k[1]));
      out[1] = compact[0];
      out[2] = minus_product(compact[0], compact[1], W(p.k[2]));
    } else {
      out[0] = compact[0];
    }
  }

  SLUICE_RULE int block_remaining(const Plan& p) const {
    return kOther ? 0 : p.n[0] - 1 - window.at;
  }
};

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
