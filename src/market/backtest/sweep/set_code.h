// The compiled form of a sweep: the rows of indicator values and the comparisons of each
// parameter set. CPU and GPU share it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/hd.h"
#include "market/backtest/engine/strategy.h"
#include "market/backtest/engine/trading.h"

namespace sluice::market {

enum class RowKind : std::int32_t { sma, ema, rsi, score, change };

// One value a bar, computed once a ticker for all sets that use it.
struct RowSpec {
  RowKind kind = RowKind::sma;
  std::int32_t period = 0;
  double scale = 1;  // a slow average is kept this much larger, so that equal is not above

  friend bool operator==(const RowSpec&, const RowSpec&) = default;
};

// One parameter set: the rows it reads, and the numbers it compares them with.
struct SetCode {
  std::int32_t rows[3] = {};
  std::int32_t warm = 0;  // the first bar whose signal counts
  double k[2] = {};
};

struct SweepPlan {
  Strategy strategy = Strategy::sma_cross;
  std::vector<RowSpec> rows;
  std::vector<SetCode> codes;  // of each set
};
SweepPlan plan_sweep(Strategy strategy, std::span<const ParameterSet> sets);

// Parameters of the sweep operation.
struct SweepParameters {
  Strategy strategy = Strategy::sma_cross;
  Trading trading{};
  std::int64_t bars = 0;  // of the longest ticker: the pitch of the price arrays
  std::int32_t sets = 0, rows = 0;
  std::int32_t longest = 0;  // period of any row
  bool all_in = false;       // AllInAccount, not Stepper, trades
};

// A comparison: value of `row`, `lag` bars ago, above `other` (a row) or `constant`; or
// below it.
struct Comparison {
  std::int32_t row = 0, other = -1, lag = 0;
  bool below = false;
  double constant = 0;
};
inline constexpr int kMaxComparisons = 5;

SLUICE_HD inline int comparisons(Strategy strategy) {
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: return 1;
    case Strategy::rsi:
    case Strategy::momentum: return 2;
    case Strategy::bollinger: return 4;
    case Strategy::swing: return 5;
  }
  return 0;
}

SLUICE_HD inline Comparison comparison(Strategy strategy, const SetCode& c, int i) {
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: return {c.rows[0], c.rows[1], 0, false, 0};
    case Strategy::rsi: return {c.rows[0], -1, 0, i == 0, c.k[i]};
    case Strategy::momentum: return {c.rows[0], -1, 0, i == 1, i == 0 ? c.k[0] : -c.k[0]};
    case Strategy::bollinger: {  // under -width, above -exit, above width, under exit
      const double bound = c.k[i & 1];
      return {c.rows[0], -1, 0, i == 0 || i == 3, i < 2 ? -bound : bound};
    }
    case Strategy::swing: {  // trend; RSI low, high, now and a bar ago
      if (i == 0) return {c.rows[0], c.rows[1], 0, false, 0};
      const bool low = (i & 1) != 0;
      return {c.rows[2], -1, i > 2 ? 1 : 0, low, low ? c.k[0] : 100 - c.k[0]};
    }
  }
  return {};
}

// The signals of as many bars as W has bits.
template <class W>
struct SignalBits {
  W enter_long, leave_long, enter_short, leave_short;
};

// Combines the bits of the comparisons. `valid` has the bars whose signal counts.
template <class W>
SLUICE_HD inline SignalBits<W> combine(Strategy strategy, const W* c, W valid) {
  SignalBits<W> s{};
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: s = {c[0], ~c[0], ~c[0], c[0]}; break;
    case Strategy::rsi: s = {c[0], c[1], c[1], c[0]}; break;
    case Strategy::momentum: s = {c[0], ~c[0], c[1], ~c[1]}; break;
    case Strategy::bollinger: s = {c[0], c[1], c[2], c[3]}; break;
    case Strategy::swing: s = {c[0] & c[3] & ~c[1], ~c[0], ~c[0] & c[4] & ~c[2], c[0]}; break;
  }
  return {s.enter_long & valid, s.leave_long & valid, s.enter_short & valid, s.leave_short & valid};
}

// Returns the bits of the bars [begin, end) in the word whose first bar is `base`.
template <class W>
SLUICE_HD inline W bits_between(std::int64_t base, std::int64_t begin, std::int64_t end) {
  constexpr int kBits = static_cast<int>(sizeof(W) * 8);
  const std::int64_t from = begin > base ? begin - base : 0;
  const std::int64_t to = end < base + kBits ? end - base : kBits;
  if (from >= to) return W(0);
  const W up_to = to == kBits ? ~W(0) : static_cast<W>((W(1) << to) - 1);
  return up_to & static_cast<W>(~W(0) << from);
}

}  // namespace sluice::market
