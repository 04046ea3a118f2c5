// Device tables that all sets of a sweep share, one of each per ticker.
#pragma once

#include "compute/launch_context.h"
#include "market/backtest/engine/trading.h"
#include "market/backtest/sweep/all_in_account.h"
#include "market/backtest/sweep/set_code.h"

namespace sluice::market {

struct DeviceBits {
  __device__ static int lowest(std::uint32_t word) { return __ffs(static_cast<int>(word)) - 1; }
  __device__ static int highest(std::int32_t n) { return 31 - __clz(n); }
  __device__ static double larger(double a, double b) { return a < b ? b : a; }
  __device__ static double smaller(double a, double b) { return b < a ? b : a; }
};

// Device arrays of some tickers, ticker by ticker.
struct SweepDevice {
  const double *open, *high, *low, *close;  // pitch bars
  const Span* spans;
  const RowSpec* specs;
  const SetCode* codes;
  std::int64_t bars;
  std::int32_t sets, rows, row_pitch, ring, words, levels;
  // Scratch.
  double2* sums;         // bars + 1: running sums of closes, and what they lost in rounding
  double* values;        // rows, bar by bar: bars x row_pitch
  double* rings;         // ring x rows
  double* volatility;    // bars
  TradeEnd* ends;        // 2 x (bars + 1): enter, leave
  Range* ranges;         // levels x bars
  std::uint32_t* bits;   // comparisons x words x sets
  std::uint32_t* pairs;  // for averages that cross: both rows of each set, 16 bits each

  __device__ TradeEnd* enter(std::size_t ticker) const { return ends + 2 * ticker * (bars + 1); }
  __device__ TradeEnd* leave(std::size_t ticker) const { return enter(ticker) + bars + 1; }
  __device__ Range* range(std::size_t ticker) const { return ranges + ticker * levels * bars; }
  __device__ double* row(std::size_t ticker, std::int64_t t) const {
    return values + (ticker * bars + t) * row_pitch;
  }
  __device__ std::uint32_t* word(std::size_t ticker, int comparison, int of, int w) const {
    return bits + ((ticker * of + comparison) * words + w) * static_cast<std::size_t>(sets);
  }
};

// Queues the kernels for running sums, indicator rows, volatilities and all-in tables of `tickers`
// tickers.
void queue_sweep_tables(const SweepDevice& d, std::size_t tickers, const Trading& trading,
                        compute::LaunchContext& context);

}  // namespace sluice::market
