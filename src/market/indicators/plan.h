// An indicator with its parameters worked out: what the rules, the CPU and the GPU need to
// run it, and nothing else.
#pragma once

#include <cstdint>

namespace sluice::market {

// The state machines of rules*-inl.h.
enum class Rule : std::int32_t {
  sma,
  ema,
  wma,
  macd,
  spread,  // BBANDS (about the mean, or about another average), STDDEV, VAR, z-score
  rsi,
  change,   // MOM and ROC in their four forms
  range,    // TRANGE, ATR, NATR
  trend,    // ADX, DX, PLUS_DI, MINUS_DI
  extreme,  // MAX, MIN
  stoch,
  stochrsi,
  willr,
  cci,
  obv,
  vwap,
  momentum_signal,
  reversion_signal,
  swing_signal,
};

enum class Average : std::int32_t { sma = 0, ema = 1, wma = 2 };  // TA-Lib's matype
enum class SpreadForm : std::int32_t { bands, deviation, variance, score, other_bands };
enum class ChangeForm : std::int32_t { mom, roc, rocp, rocr, rocr100 };
enum class RangeForm : std::int32_t { trange, atr, natr };
enum class TrendForm : std::int32_t { adx, dx, plus_di, minus_di };
enum class ExtremeForm : std::int32_t { max, min };

inline constexpr std::int64_t kEndless = -1;  // of a halo: every bar since the first counts

struct Plan {
  Rule rule = Rule::sma;
  std::int32_t form = 0;      // one of the forms above
  std::int32_t n[4] = {};     // periods, and the average to use
  double k[6] = {};           // smoothing factors, thresholds
  std::int32_t inputs = 1;    // arrays read
  std::int32_t outputs = 1;   // arrays written
  std::int32_t lookback = 0;  // bars before the first output
  std::int32_t ring = 0;      // values of the past that a line keeps
  // 1: a ratio of averages, which keeps its value while nothing moves, so that what was
  // before a stretch without movement still shows after it.
  std::int32_t ratio = 0;
  std::int32_t unused = 0;
  std::int64_t halo = 0;   // bars after which what was before does not show; or kEndless
  std::int64_t align = 0;  // lines that begin at multiples of it give the same bits; 0: none
};

inline constexpr int kMostInputs = 4;
inline constexpr int kMostOutputs = 3;

// Of TA-Lib: what is nearer to zero is taken for zero.
inline constexpr double kEpsilon = 1e-14;

}  // namespace sluice::market
