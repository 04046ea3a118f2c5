// An indicator with its parameters resolved: everything that the rules, the CPU and the GPU need to
// run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace sluice::market {

// The state machines of indicators/rules, each with the name of its operation, which its measured
// costs are stored under.
#define SLUICE_MARKET_RULES(X)                                                      \
  X(sma, "market/sma")                                                              \
  X(ema, "market/ema")                                                              \
  X(wma, "market/wma")                                                              \
  X(macd, "market/macd")                                                            \
  X(spread, "market/spread") /* BBANDS (about any average), STDDEV, VAR, z-score */ \
  X(rsi, "market/rsi")                                                              \
  X(change, "market/change")   /* MOM and ROC in their four forms */                \
  X(range, "market/range")     /* TRANGE, ATR, NATR */                              \
  X(trend, "market/trend")     /* ADX, DX, PLUS_DI, MINUS_DI */                     \
  X(extreme, "market/extreme") /* MAX, MIN */                                       \
  X(stoch, "market/stoch")                                                          \
  X(stochrsi, "market/stochrsi")                                                    \
  X(willr, "market/willr")                                                          \
  X(cci, "market/cci")                                                              \
  X(obv, "market/obv")                                                              \
  X(vwap, "market/vwap")                                                            \
  X(momentum_signal, "market/momentum")                                             \
  X(reversion_signal, "market/reversion")                                           \
  X(swing_signal, "market/swing")

#define SLUICE_RULE_VALUE(RULE, OPERATION) RULE,
enum class IndicatorRule : std::int32_t { SLUICE_MARKET_RULES(SLUICE_RULE_VALUE) };
#undef SLUICE_RULE_VALUE

#define SLUICE_RULE_NAME(RULE, OPERATION) OPERATION,
inline constexpr std::string_view kRuleOperations[] = {SLUICE_MARKET_RULES(SLUICE_RULE_NAME)};
#undef SLUICE_RULE_NAME
inline constexpr std::size_t kRuleCount = std::size(kRuleOperations);

enum class Average : std::int32_t { sma = 0, ema = 1, wma = 2 };  // TA-Lib's matype
enum class SpreadForm : std::int32_t { bands, deviation, variance, score, other_bands };
enum class ChangeForm : std::int32_t { mom, roc, rocp, rocr, rocr100 };
enum class RangeForm : std::int32_t { trange, atr, natr };
enum class TrendForm : std::int32_t { adx, dx, plus_di, minus_di };
enum class ExtremeForm : std::int32_t { max, min };

inline constexpr std::int64_t kEndless = -1;  // of a halo: every bar since the first counts

struct Plan {
  IndicatorRule rule = IndicatorRule::sma;
  std::int32_t form = 0;      // one of the forms above
  std::int32_t n[4] = {};     // periods, and the average to use
  double k[6] = {};           // smoothing factors, thresholds
  std::int32_t inputs = 1;    // arrays read
  std::int32_t outputs = 1;   // arrays written
  std::int32_t lookback = 0;  // bars before the first output
  std::int32_t ring = 0;      // values of the past that a segment keeps
  // 1: a ratio of averages, which keeps its value while no input changes, so that bars before
  // a run of unchanged bars still have an effect after it.
  std::int32_t ratio = 0;
  std::int32_t unused = 0;
  std::int64_t halo = 0;   // bars after which earlier bars have no effect; or kEndless
  std::int64_t align = 0;  // segments that begin at multiples of it give the same bits; 0: none
};

inline constexpr int kMaxInputs = 4;
inline constexpr int kMaxOutputs = 3;

// TA-Lib 0.8 takes a difference of prices for 0 when it is a smaller fraction of the prices, which
// rounding may make. No other magnitude is small: prices may be of any scale.
inline constexpr double kRounding = 1e-14;
inline constexpr double kSmallest = 5e-324;  // above 0

}  // namespace sluice::market
