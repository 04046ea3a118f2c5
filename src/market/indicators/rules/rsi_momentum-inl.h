// RSI, MOM and ROC.
#include "market/indicators/rules/averages_macd-inl.h"

#if defined(SLUICE_MARKET_RSI_MOMENTUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_RSI_MOMENTUM_INL_H_
#undef SLUICE_MARKET_RSI_MOMENTUM_INL_H_
#else
#define SLUICE_MARKET_RSI_MOMENTUM_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// RSI = 100 * gains / (gains + losses). Wilder's sums are used; their common factor 1/n cancels.
// run_segments() of cuda/indicator_kernel.cuh runs it on a GPU, GroupKernel of
// cpu/group_kernel-inl.h on the CPU.
template <class V>
struct RsiRule {
  static constexpr int kInputs = 1, kOutputs = 1, kRaw = 2, kStateValues = 3;
  static constexpr bool kUsesRing = false;
  V before = V(0);
  WilderSum<V> gains, losses;
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
