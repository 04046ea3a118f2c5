// Every indicator is a rule: a state machine, written once as a struct. update() takes one bar and
// gives the outputs, which are valid once plan.lookback bars have passed. The same code runs one
// series at a time (V = double: Stream), a segment in each SIMD lane (V = SimdValue:
// cpu/group_kernel-inl.h) and a segment in each GPU thread (V = GpuValue: run_segments() of
// cuda/indicator_kernel.cuh), so that all agree. Branches depend on the number of bars alone, never
// on values, since the lanes of V share them.
//
// A rule may have hooks that split update(), which then calls them itself:
//
//   hook                when it is called                          what it saves
//   advance()           GPU: for each bar in order                 only it waits for the bar before
//   finish()            GPU: after advance(), for several bars     its quotients and roots overlap
//   gather()            CPU: for consecutive bars of a segment     kGathered values of a bar are
//                       as they are loaded                         transposed instead of kInputs
//   update_gathered()   CPU: for each bar in order, on these
//   update_compact()    CPU: for each bar in order                 kCompact values of a bar are
//   expand()            CPU: for consecutive bars of a segment     transposed instead of kOutputs
//                       as they are stored
//   refine()            CPU: after update_compact(), to complete   roots of two bars by two units
//                       value kRefined
//   settle()            any: once the look-back is over            the checks for the look-back
//   block_remaining()   any: so many bars may then be updated      the check for the end of a block
//                       with kBlockEnds = false                    of the window
//
// kStateValues: values that are carried from bar to bar; the registers of the CPU are shared out by
// it. kUsesRing: the rule uses its ring, memory for plan.ring values of the past. kRaw: values that
// advance() gives to finish().
//
// The functions below choose the rule for a plan: each calls f.run<S>() with the struct S that
// plan.rule and plan.form name. There is one function for each file of rules, since the CPU's code
// for a family is compiled apart (cpu/simd_*.cc). It returns false when the rule is of another
// family.
#include "market/indicators/rules/atr_adx-inl.h"
#include "market/indicators/rules/signals-inl.h"
#include "market/indicators/rules/stochastic_extremes-inl.h"
#include "market/indicators/rules/volume_cci-inl.h"

#if defined(SLUICE_MARKET_DISPATCH_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_DISPATCH_RULES_INL_H_
#undef SLUICE_MARKET_DISPATCH_RULES_INL_H_
#else
#define SLUICE_MARKET_DISPATCH_RULES_INL_H_
#endif

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

template <class V, class F>
inline bool visit_averages(const Plan& plan, F&& f) {
  switch (plan.rule) {
    case IndicatorRule::sma: return f.template run<SmaRule<V>>(), true;
    case IndicatorRule::ema: return f.template run<EmaRule<V>>(), true;
    case IndicatorRule::wma: return f.template run<WmaRule<V>>(), true;
    case IndicatorRule::macd: return f.template run<MacdRule<V>>(), true;
    default: return false;
  }
}

template <class V, class F>
inline bool visit_bands(const Plan& plan, F&& f) {
  using enum SpreadForm;
  if (plan.rule != IndicatorRule::spread) return false;
  switch (SpreadForm(plan.form)) {
    case bands: return f.template run<SpreadRule<V, bands>>(), true;
    case deviation: return f.template run<SpreadRule<V, deviation>>(), true;
    case variance: return f.template run<SpreadRule<V, variance>>(), true;
    case score: return f.template run<SpreadRule<V, score>>(), true;
    case other_bands: return f.template run<SpreadRule<V, other_bands>>(), true;
  }
  return false;
}

template <class V, class F>
inline bool visit_momentum(const Plan& plan, F&& f) {
  using enum ChangeForm;
  if (plan.rule == IndicatorRule::rsi) return f.template run<RsiRule<V>>(), true;
  if (plan.rule != IndicatorRule::change) return false;
  switch (ChangeForm(plan.form)) {
    case mom: return f.template run<ChangeRule<V, mom>>(), true;
    case roc: return f.template run<ChangeRule<V, roc>>(), true;
    case rocp: return f.template run<ChangeRule<V, rocp>>(), true;
    case rocr: return f.template run<ChangeRule<V, rocr>>(), true;
    case rocr100: return f.template run<ChangeRule<V, rocr100>>(), true;
  }
  return false;
}

template <class V, class F>
inline bool visit_range(const Plan& plan, F&& f) {
  using enum RangeForm;
  switch (RangeForm(plan.form)) {
    case trange: return f.template run<RangeRule<V, trange>>(), true;
    case atr: return f.template run<RangeRule<V, atr>>(), true;
    case natr: return f.template run<RangeRule<V, natr>>(), true;
  }
  return false;
}

template <class V, class F>
inline bool visit_trend(const Plan& plan, F&& f) {
  using enum TrendForm;
  switch (TrendForm(plan.form)) {
    case adx: return f.template run<TrendRule<V, adx>>(), true;
    case dx: return f.template run<TrendRule<V, dx>>(), true;
    case plus_di: return f.template run<TrendRule<V, plus_di>>(), true;
    case minus_di: return f.template run<TrendRule<V, minus_di>>(), true;
  }
  return false;
}

template <class V, class F>
inline bool visit_atr_adx(const Plan& plan, F&& f) {
  if (plan.rule == IndicatorRule::range) return visit_range<V>(plan, f);
  return plan.rule == IndicatorRule::trend && visit_trend<V>(plan, f);
}

template <class V, class F>
inline bool visit_extremes(const Plan& plan, F&& f) {
  using enum ExtremeForm;
  switch (plan.rule) {
    case IndicatorRule::extreme:
      if (ExtremeForm(plan.form) == max) return f.template run<ExtremeRule<V, max>>(), true;
      return f.template run<ExtremeRule<V, min>>(), true;
    case IndicatorRule::stoch: return f.template run<StochRule<V>>(), true;
    case IndicatorRule::stochrsi: return f.template run<StochRsiRule<V>>(), true;
    case IndicatorRule::willr: return f.template run<WillrRule<V>>(), true;
    default: return false;
  }
}

template <class V, class F>
inline bool visit_volume(const Plan& plan, F&& f) {
  switch (plan.rule) {
    case IndicatorRule::cci: return f.template run<CciRule<V>>(), true;
    case IndicatorRule::obv: return f.template run<ObvRule<V>>(), true;
    case IndicatorRule::vwap: return f.template run<VwapRule<V>>(), true;
    default: return false;
  }
}

template <class V, class F>
inline bool visit_signals(const Plan& plan, F&& f) {
  switch (plan.rule) {
    case IndicatorRule::momentum_signal: return f.template run<MomentumSignalRule<V>>(), true;
    case IndicatorRule::reversion_signal: return f.template run<ReversionSignalRule<V>>(), true;
    case IndicatorRule::swing_signal: return f.template run<SwingSignalRule<V>>(), true;
    default: return false;
  }
}

// The rule of any family.
template <class V, class F>
inline void visit_rule(const Plan& plan, F&& f) {
  (void)(visit_averages<V>(plan, f) || visit_bands<V>(plan, f) || visit_momentum<V>(plan, f) ||
         visit_atr_adx<V>(plan, f) || visit_extremes<V>(plan, f) || visit_volume<V>(plan, f) ||
         visit_signals<V>(plan, f));
}

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
