// OBV, VWAP and CCI.
#include "market/indicators/rules/rolling_windows-inl.h"

#if defined(SLUICE_MARKET_VOLUME_CCI_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_VOLUME_CCI_INL_H_
#undef SLUICE_MARKET_VOLUME_CCI_INL_H_
#else
#define SLUICE_MARKET_VOLUME_CCI_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

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
    const V zero = V(0), one_none = rounding_of(mean, kRounding);
    const V all_none = rounding_of(mean, p.k[1]);
    out[0] = pick_lt(magnitude(off), one_none, zero, pick_lt(deviation, all_none, zero, value));
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
  RollingSum<V> value, volume;

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
