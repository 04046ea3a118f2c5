// An account that is fully invested in one ticker or in cash, long, without stops. Between two
// fills its returns are the ticker's, so a trade costs a few operations whatever its length.
// Sums of returns are differences of prefix sums. The drawdown within a trade is searched in
// ranges of power-of-two length, and only if it may exceed the largest drawdown so far.
#pragma once

#include <cstdint>

#include "market/backtest/engine/metrics.h"
#include "market/backtest/sweep/set_code.h"

namespace sluice::market {

// Returns whether AllInAccount supports these trading options.
SLUICE_HD inline bool is_all_in(const Trading& t) {
  return t.sides == Sides::long_only && t.sizing == Sizing::fraction && t.fraction == 1 &&
         t.fixed_fee == 0 && t.stop_loss == 0 && t.take_profit == 0;
}

// One end of a trade at a bar. The sums of a trade are leave - enter: running sums of the
// ticker's returns, their squares and what is under risk-free, with the return of the bar
// of the fill in place of the ticker's. Equity grows by enter.factor x leave.factor.
struct alignas(32) TradeEnd {
  double sum, squares, downside, factor;
};

// Statistics of a range of closes. `keep` is the lowest ratio of a later close to an earlier one.
struct alignas(32) Range {
  double low, high, keep;
};

// Tables of one ticker. Level k of `range` covers 2^k bars from each bar on; levels are `pitch`
// apart.
struct AllInTables {
  const TradeEnd* enter;  // at the bar of the fill
  const TradeEnd* leave;  // at [end]: a position that is still open, worth its last close
  const Range* range;
  std::int64_t pitch;
};

SLUICE_HD inline double below_zero_squared(double x) { return x < 0 ? x * x : 0; }

// The ends at bar t. `sums` are the running sums up to bar t for the entry, up to t - 1 for
// the exit.
SLUICE_HD inline TradeEnd enter_at(const Trading& t, double fill, double close,
                                   const TradeEnd& sums) {
  const double shares = 1 / (fill * (1 + t.slippage) * (1 + t.fee));
  const double change = close * shares - 1, free = t.risk_free / t.periods_per_year;
  return {sums.sum - change, sums.squares - change * change,
          sums.downside - below_zero_squared(change - free), shares};
}
SLUICE_HD inline TradeEnd leave_at(const Trading& t, double fill, double close_before,
                                   const TradeEnd& sums) {
  const double worth = fill * (1 - t.slippage) * (1 - t.fee);
  const double change = worth / close_before - 1, free = t.risk_free / t.periods_per_year;
  return {sums.sum + change, sums.squares + change * change,
          sums.downside + below_zero_squared(change - free), worth};
}

// Joins the ranges of two consecutive runs of bars.
template <class Bits>
SLUICE_HD inline Range joined(const Range& a, const Range& b) {
  return {Bits::smaller(a.low, b.low), Bits::larger(a.high, b.high),
          Bits::smaller(Bits::smaller(a.keep, b.keep), b.low / a.high)};
}

// Finds trades in the bits of signals. Bits: lowest(word), highest(int), larger, smaller of
// the processor at hand.
template <class Bits>
class TradeFinder {
 public:
  TradeFinder() = default;
  // Continues after the last trade, for trades that were found by another method.
  SLUICE_HD TradeFinder(bool inside, std::int32_t entered) : entered_(entered), inside_(inside) {}

  // Calls trade(entry, exit) with bars of fills, in order, for the signals of the next bars
  // (those that count); `base` is the first bar of the words.
  template <class W, class Trade>
  SLUICE_HD void take(std::int32_t base, W enter, W leave, Trade&& trade) {
    W bits = inside_ ? leave : enter;
    while (bits != 0) {
      const int bit = Bits::lowest(bits);
      const W later = static_cast<W>(~W(1) << bit);
      const std::int32_t fill = base + bit + 1;
      if (inside_) trade(entered_, fill);
      bits = (inside_ ? enter : leave) & later;
      entered_ = fill;
      inside_ = !inside_;
    }
  }

  SLUICE_HD bool inside() const { return inside_; }
  SLUICE_HD std::int32_t entered() const { return entered_; }  // where inside()

 private:
  std::int32_t entered_ = 0;
  bool inside_ = false;
};

template <class Bits>
class AllInAccount {
 public:
  SLUICE_HD AllInAccount(const AllInTables& tables, double cash)
      : tables_(tables), equity_(cash), peak_(cash) {}

  SLUICE_HD void trade(std::int32_t entry, std::int32_t exit) {
    const TradeEnd in = tables_.enter[entry], out = tables_.leave[exit];
    sum_ += out.sum - in.sum;
    squares_ += out.squares - in.squares;
    downside_ += out.downside - in.downside;
    const double shares = equity_ * in.factor;
    watch_drawdown(entry, exit, shares);
    const double worth = shares * out.factor, before = equity_, profit = worth - before;
    if (worth < keep_ * peak_) keep_ = worth / peak_;
    peak_ = Bits::larger(peak_, worth);
    equity_ = worth;
    ++trades_;
    wins_ += profit > kBreakEven * before ? 1 : 0;
    profits_ += Bits::larger(profit, 0.0);
    losses_ += Bits::larger(-profit, 0.0);
    bars_in_ += exit - entry;
  }

  // `end` is one past the last bar.
  SLUICE_HD Tally finish(const TradeFinder<Bits>& found, std::int32_t first, std::int32_t end,
                         const Trading& t) {
    const std::int32_t exits = trades_;
    if (found.inside()) trade(found.entered(), end);
    const double out = end - first - bars_in_ - exits;
    const double idle = below_zero_squared(-t.risk_free / t.periods_per_year);
    return {equity_,
            1 - keep_,
            sum_,
            squares_,
            downside_ + out * idle,
            profits_,
            losses_,
            trades_ / (1 + t.fee) + exits * (1 - t.slippage),
            trades_,
            wins_,
            bars_in_,
            0};
  }

 private:
  SLUICE_HD void watch_drawdown(std::int32_t entry, std::int32_t exit, double shares) {
    const int level = Bits::highest(exit - entry);
    const Range* row = tables_.range + level * tables_.pitch;
    const Range a = row[entry], b = row[exit - (1 << level)];
    const double top = shares * Bits::larger(a.high, b.high);
    const double bottom = shares * Bits::smaller(a.low, b.low);
    if constexpr (requires { Bits::kBranchFree; })
      if (only_raises_peak(a, b, top, bottom)) {
        peak_ = Bits::larger(peak_, top);
        return;
      }
    if (top <= peak_) {  // all of it is under the old peak
      if (bottom < keep_ * peak_) keep_ = bottom / peak_;
      return;
    }
    keep_ = Bits::smaller(keep_, Bits::smaller(a.keep, b.keep));
    // Still from before the trade, or from its first to its last part?
    if (bottom < keep_ * peak_ || b.low < keep_ * a.high)
      search_drawdown(entry, exit, shares);
    else
      peak_ = top;
  }

  // Returns whether the rest of watch_drawdown() only raises the peak, as for most trades. It is
  // evaluated without branches to avoid mispredictions on the CPU.
  SLUICE_HD bool only_raises_peak(const Range& a, const Range& b, double top, double bottom) const {
    const bool within = (a.keep < keep_) | (b.keep < keep_) | (b.low < keep_ * a.high);
    return !((bottom < keep_ * peak_) | ((top > peak_) & within));
  }

  // Searches disjoint ranges, each at least twice as long as the next. A fall is from a peak
  // before its range, or within it.
  SLUICE_HD void search_drawdown(std::int32_t entry, std::int32_t exit, double shares) {
    while (entry < exit) {
      const int level = Bits::highest(exit - entry);
      const Range part = tables_.range[level * tables_.pitch + entry];
      const double low = shares * part.low;
      keep_ = Bits::smaller(keep_, part.keep);
      if (low < keep_ * peak_) keep_ = low / peak_;
      peak_ = Bits::larger(peak_, shares * part.high);
      entry += 1 << level;
    }
  }

  AllInTables tables_;
  double equity_, peak_, keep_ = 1;  // of the peak, in the worst drawdown
  double sum_ = 0, squares_ = 0, downside_ = 0, profits_ = 0, losses_ = 0;
  std::int32_t trades_ = 0, wins_ = 0, bars_in_ = 0;
};

}  // namespace sluice::market
