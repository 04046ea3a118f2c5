// What the CPU's loops need to know of a rule: how many vectors run together, how its bars are
// loaded and stored, and which hook updates it. Included once per instruction set.
#include <algorithm>

#include "market/indicators/cpu/segment_group-inl.h"
#include "market/indicators/rules/dispatch_rules-inl.h"

#if defined(SLUICE_MARKET_RULE_TRAITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_RULE_TRAITS_INL_H_
#undef SLUICE_MARKET_RULE_TRAITS_INL_H_
#else
#define SLUICE_MARKET_RULE_TRAITS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// Rule S with values of type V.
template <class S, class V>
struct RebindValue;
template <template <class> class R, class W, class V>
struct RebindValue<R<W>, V> {
  using Type = R<V>;
};
template <class Form, template <class, Form> class R, class W, Form form, class V>
struct RebindValue<R<W, form>, V> {
  using Type = R<V, form>;
};

// Whether rule S uses register tiles.
template <class S>
constexpr bool kUsesRegisterTiles = S::kInputs == 1 && S::kStateValues <= 3 && kLanes >= 4;

// Whether rule S has refine(): a root of each bar.
template <class S>
constexpr bool kRefines = requires {
  S::kRefined;
};

// The vectors that run together: 16 segments (caches and memory do not follow more streams), but
// the values that the rule carries from bar to bar may take half of the registers at most. With
// register tiles one vector is enough for a rule with a root, or with chains and quotients of long
// vectors.
template <class S>
constexpr int vectors_for() {
  constexpr bool kQuotients = !S::kUsesRing && requires { S::kRaw; };
  if (kUsesRegisterTiles<S> && (kRefines<S> || (kLanes == 8 && kQuotients))) return 1;
  if (kUsesRegisterTiles<S> && kLanes == 4) return 2;  // of 16 registers
  constexpr int kHalf = kLanes >= 8 || !HWY_ARCH_X86 ? 16 : 8;
  int n = std::clamp(16 / kLanes, 1, kLanes);
  while (n > 1 && n * S::kStateValues > kHalf) n /= 2;
  return n;
}

// How the bars of rule S are loaded and stored.
template <class S>
struct LoaderFor {
  using Type = LoadUnchanged<S::kInputs>;
};
template <class S>
requires(S::kGathered > 0) struct LoaderFor<S> {
  using Type = LoadGathered<S>;
};
template <class S>
struct StorerFor {
  using Type = StoreUnchanged;
  static constexpr int kStored = S::kOutputs;
};
template <class S>
requires(S::kCompact > 0) struct StorerFor<S> {
  using Type = S;
  static constexpr int kStored = S::kCompact;
};

// Updates the rule with one bar: the part that runs with a segment in each lane.
template <bool kBlockEnds, class S, class V>
HWY_INLINE void update_rule(S& state, const Plan& plan, const V* bar, V* ring, V* made) {
  if constexpr (requires { S::kCompact; }) {
    state.template update_compact<kBlockEnds>(plan, bar, ring, made);
  } else if constexpr (requires { S::kGathered; }) {
    state.update_gathered(plan, bar, ring, made);
  } else if constexpr (requires { state.block_remaining(plan); }) {
    state.template update<kBlockEnds>(plan, bar, ring, made);
  } else {
    state.update(plan, bar, ring, made);
  }
}

template <class S>
using SimdValueFor = SimdValue<vectors_for<S>()>;

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
