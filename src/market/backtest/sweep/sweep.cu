#include <algorithm>

#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/backtest/sweep/stepper.h"
#include "market/backtest/sweep/sweep_kernels.h"
#include "market/backtest/sweep/sweep_tables.cuh"
#include "market/gpu/gpu_operations.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::LaunchContext;

constexpr unsigned kWarp = 32, kAll = 0xffffffffu;
constexpr unsigned kCompareThreads = 256, kTradeThreads = 128;
constexpr std::size_t kMaxShared = 200 << 10;  // of a block on Hopper
constexpr std::size_t kMaxScratch = std::size_t{3} << 30;

// Rows of a tile of 32 bars, and the bar before it, bar by bar: in shared memory, where an
// odd pitch keeps the lanes' bars in different banks, or where they lie.
struct Tile {
  const double* values;  // of the tile's first bar
  std::size_t pitch;
  bool has_before;
  __device__ double at(int bar, int row) const {
    if (bar < 0 && !has_before) return NAN;
    return values[static_cast<std::ptrdiff_t>(bar) * static_cast<std::ptrdiff_t>(pitch) + row];
  }
};

__device__ bool holds(const Comparison& c, const Tile& tile, int bar) {
  const double a = tile.at(bar - c.lag, c.row);
  const double b = c.other >= 0 ? tile.at(bar, c.other) : c.constant;
  return c.below ? a < b : a > b;
}

__global__ void pack_pairs(SweepDevice d) {
  const int s = static_cast<int>(blockIdx.x * kCompareThreads + threadIdx.x);
  if (s >= d.sets) return;
  const std::int32_t* rows = d.codes[s].rows;
  d.pairs[s] = static_cast<std::uint32_t>(rows[0]) | static_cast<std::uint32_t>(rows[1]) << 16;
}

// Bars of a row in shared memory: two are read at once, and neighbouring rows, which
// neighbouring sets have, lie in different banks.
constexpr std::size_t kRowPitch = kWarp + 2;

// Averages that cross. A block has one word of bars of one ticker, row by row in shared
// memory; a thread makes the full word of a set, and needs no other for it.
// Limit: shared memory gives 128 bytes a clock to an SM; a bar-set reads 16, or 8 where the
// sets of a warp share their first row: 2.1e12 to 4.2e12 bar-sets/s on 132 SMs at 1.98 GHz.
// 3 instructions for 32 bar-sets: 11e12.
__global__ void __launch_bounds__(kCompareThreads) compare_crosses(SweepDevice d) {
  extern __shared__ __align__(16) double shared[];
  const std::size_t ticker = blockIdx.y;
  const int w = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x % kWarp);
  const std::int64_t base = std::int64_t{w} * kWarp, end = d.spans[ticker].end;
  if (base >= end) return;
  constexpr int kWarps = kCompareThreads / kWarp;
  for (int bar = static_cast<int>(threadIdx.x / kWarp); bar < static_cast<int>(kWarp);
       bar += kWarps) {
    const double* from = d.row(ticker, base + bar);
    for (int r = lane; r < d.rows; r += static_cast<int>(kWarp))
      shared[static_cast<std::size_t>(r) * kRowPitch + bar] =
          base + bar < end ? __ldg(from + r) : NAN;
  }
  __syncthreads();
  std::uint32_t* out = d.word(ticker, 0, 1, w);
  for (int s = static_cast<int>(threadIdx.x); s < d.sets; s += kCompareThreads) {
    const std::uint32_t pair = __ldg(d.pairs + s);
    const auto* a = reinterpret_cast<const double2*>(shared + (pair & 0xffff) * kRowPitch);
    const auto* b = reinterpret_cast<const double2*>(shared + (pair >> 16) * kRowPitch);
    std::uint32_t word = 0;
#pragma unroll
    for (unsigned i = 0; i < kWarp / 2; ++i) {
      const double2 x = a[i], y = b[i];
      if (x.x > y.x) word |= 1u << 2 * i;
      if (x.y > y.y) word |= 2u << 2 * i;
    }
    out[s] = word;
  }
}

// Any strategy. A block has one word of bars of one ticker; its warps share the sets, a lane
// is a bar, and a vote makes the word. Lanes keep a set's word each until 32 can be written
// together.
template <bool kShared>
__global__ void __launch_bounds__(kCompareThreads) compare_sets(SweepDevice d, Strategy strategy) {
  extern __shared__ __align__(16) double shared[];
  const std::size_t ticker = blockIdx.y;
  const int w = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x % kWarp);
  const std::int64_t base = std::int64_t{w} * kWarp, end = d.spans[ticker].end;
  if (base >= end) return;
  const int bars = static_cast<int>(min(static_cast<std::int64_t>(kWarp), end - base));
  const std::size_t pitch = static_cast<std::size_t>(d.row_pitch);
  Tile tile{d.row(ticker, base), pitch, base > 0};
  if constexpr (kShared) {
    const std::size_t before = base > 0 ? pitch : 0, count = bars * pitch + before;
    const double* from = tile.values - before;
    for (std::size_t i = threadIdx.x; i < count; i += kCompareThreads) shared[i] = __ldg(from + i);
    tile.values = shared + before;
    __syncthreads();
  }
  const int bar = min(lane, bars - 1);  // bits after the end are masked when they are read
  const int of = comparisons(strategy);
  constexpr int kWarps = kCompareThreads / kWarp;
  for (int first = static_cast<int>(threadIdx.x / kWarp) * static_cast<int>(kWarp); first < d.sets;
       first += kWarps * static_cast<int>(kWarp)) {
    std::uint32_t kept[kMaxComparisons] = {};
    const int last = min(first + static_cast<int>(kWarp), d.sets);
    for (int s = first; s < last; ++s)
      for (int i = 0; i < of; ++i) {
        const Comparison c = comparison(strategy, d.codes[s], i);
        const std::uint32_t word = __ballot_sync(kAll, holds(c, tile, bar));
        if (lane == s - first) kept[i] = word;
      }
    for (int i = 0; i < of; ++i)
      if (first + lane < last) d.word(ticker, i, of, w)[first + lane] = kept[i];
  }
}

template <bool kCross>
__device__ SignalBits<std::uint32_t> signals_of(const SweepDevice& d, Strategy strategy,
                                                std::size_t ticker, int set, int w,
                                                std::int64_t begin, std::int64_t end) {
  const int of = kCross ? 1 : comparisons(strategy);
  std::uint32_t c[kMaxComparisons] = {};
#pragma unroll
  for (int i = 0; i < (kCross ? 1 : kMaxComparisons); ++i)
    if (i < of) c[i] = __ldg(d.word(ticker, i, of, w) + set);
  const auto valid = bits_between<std::uint32_t>(std::int64_t{w} * kWarp, begin, end - 1);
  return combine<std::uint32_t>(kCross ? Strategy::sma_cross : strategy, c, valid);
}

// A thread a set. Limit: about 70 instructions and 6 scattered loads from L2 for a trade,
// and some 15 instructions for each 32 bars; lanes wait for the one with most trades in a
// word. With a trade in 100 bars well under one instruction a bar-set.
template <bool kCross>
__global__ void __launch_bounds__(kTradeThreads)
    trade_all_in(SweepDevice d, Strategy strategy, Trading trading, Tally* out) {
  const std::size_t ticker = blockIdx.y;
  const int set = static_cast<int>(blockIdx.x * kTradeThreads + threadIdx.x);
  if (set >= d.sets) return;
  const Span span = d.spans[ticker];
  const std::int64_t warm = d.codes[set].warm, begin = max(warm, span.first - 1);
  AllInAccount<DeviceBits> account({d.enter(ticker), d.leave(ticker), d.range(ticker), d.bars},
                                   trading.initial_cash);
  TradeFinder<DeviceBits> finder;
  const int words = static_cast<int>((span.end + kWarp - 1) / kWarp);
  for (int w = static_cast<int>((span.first - 1) / kWarp); w < words; ++w) {
    const auto s = signals_of<kCross>(d, strategy, ticker, set, w, begin, span.end);
    finder.take<std::uint32_t>(
        w * static_cast<int>(kWarp), s.enter_long, s.leave_long,
        [&account](std::int32_t entry, std::int32_t exit) { account.trade(entry, exit); });
  }
  out[ticker * static_cast<std::size_t>(d.sets) + static_cast<std::size_t>(set)] = account.finish(
      finder, static_cast<std::int32_t>(span.first), static_cast<std::int32_t>(span.end), trading);
}

// A thread a set, bar by bar; prices are the same for a warp. Limit: some 40 instructions in
// double for each bar-set.
__global__ void __launch_bounds__(kTradeThreads)
    trade_steps(SweepDevice d, Strategy strategy, const Trading trading, Tally* out) {
  const std::size_t ticker = blockIdx.y, first_bar = ticker * d.bars;
  const int set = static_cast<int>(blockIdx.x * kTradeThreads + threadIdx.x);
  if (set >= d.sets) return;
  const Span span = d.spans[ticker];
  const std::int64_t warm = d.codes[set].warm, begin = max(warm, span.first - 1);
  Stepper account(trading, {d.open + first_bar, d.high + first_bar, d.low + first_bar,
                            d.close + first_bar, d.volatility + first_bar});
  SignalBits<std::uint32_t> s{};
  for (std::int64_t t = span.first - 1; t < span.end; ++t) {
    const int bit = static_cast<int>(t % kWarp);
    if (bit == 0 || t == span.first - 1)
      s = signals_of<false>(d, strategy, ticker, set, static_cast<int>(t / kWarp), begin, span.end);
    if (t >= span.first) account.bar(t);
    const auto is = [bit](std::uint32_t word) { return (word >> bit & 1) != 0; };
    account.decide({is(s.enter_long), is(s.leave_long), is(s.enter_short), is(s.leave_short)});
  }
  out[ticker * static_cast<std::size_t>(d.sets) + static_cast<std::size_t>(set)] = account.finish();
}

template <class Kernel>
void allow_shared(Kernel kernel, std::size_t bytes) {
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
}

void queue_compare(const SweepDevice& d, Strategy strategy, unsigned tickers,
                   LaunchContext& context) {
  const auto pitch = static_cast<std::size_t>(d.row_pitch);
  const std::size_t crossing = pitch * kRowPitch * sizeof(double);
  const std::size_t bytes = (kWarp + 1) * pitch * sizeof(double);
  device::Grid grid{dim3(static_cast<unsigned>(d.words), tickers), dim3(kCompareThreads), 0};
  if (comparisons(strategy) == 1 && crossing <= kMaxShared) {
    const auto blocks = (static_cast<unsigned>(d.sets) + kCompareThreads - 1) / kCompareThreads;
    device::launch(context.stream(), {dim3(blocks), dim3(kCompareThreads)}, pack_pairs, d);
    allow_shared(compare_crosses, crossing);
    grid.shared_bytes = crossing;
    device::launch(context.stream(), grid, compare_crosses, d);
  } else if (bytes <= kMaxShared) {
    allow_shared(compare_sets<true>, bytes);
    grid.shared_bytes = bytes;
    device::launch(context.stream(), grid, compare_sets<true>, d, strategy);
  } else {
    device::launch(context.stream(), grid, compare_sets<false>, d, strategy);
  }
}

void queue_trades(const SweepDevice& d, const SweepParameters& p, unsigned tickers, Tally* out,
                  LaunchContext& context) {
  const bool cross = comparisons(p.strategy) == 1;
  queue_compare(d, p.strategy, tickers, context);
  const device::Grid grid{
      dim3((static_cast<unsigned>(d.sets) + kTradeThreads - 1) / kTradeThreads, tickers),
      dim3(kTradeThreads)};
  if (!p.all_in)
    device::launch(context.stream(), grid, trade_steps, d, p.strategy, p.trading, out);
  else if (cross)
    device::launch(context.stream(), grid, trade_all_in<true>, d, p.strategy, p.trading, out);
  else
    device::launch(context.stream(), grid, trade_all_in<false>, d, p.strategy, p.trading, out);
}

// Sets all sizes, and no pointers yet.
SweepDevice sizes_of(const SweepParameters& p) {
  SweepDevice d{};
  d.bars = p.bars;
  d.sets = p.sets;
  d.rows = p.rows;
  d.row_pitch = p.rows | 1;
  d.ring = 2 * std::max(p.longest, p.trading.volatility_period) + 2;
  d.words = static_cast<std::int32_t>((p.bars + kWarp - 1) / kWarp);
  d.levels = 1;
  while ((std::int64_t{2} << (d.levels - 1)) <= p.bars) ++d.levels;
  return d;
}

// Takes scratch for as many tickers at a time as kMaxScratch holds. Returns their number.
std::size_t take_scratch(SweepDevice& d, const SweepParameters& p, std::size_t items,
                         LaunchContext& context) {
  const auto bars = static_cast<std::size_t>(d.bars);
  const std::size_t bits = static_cast<std::size_t>(comparisons(p.strategy)) *
                           static_cast<std::size_t>(d.words) * static_cast<std::size_t>(d.sets);
  const std::size_t values = bars * static_cast<std::size_t>(d.row_pitch);
  const std::size_t rings = static_cast<std::size_t>(d.ring) * static_cast<std::size_t>(d.rows);
  const std::size_t ranges = static_cast<std::size_t>(d.levels) * bars;
  const std::size_t each =
      bits * 4 + (values + rings + 3 * bars) * 8 + (ranges + 2 * (bars + 1)) * sizeof(Range);
  const std::size_t n =
      std::clamp<std::size_t>(kMaxScratch / each, 1, std::min(items, std::size_t{65535}));
  d.sums = context.scratch<double2>(n * (bars + 1));
  d.values = context.scratch<double>(n * values);
  d.rings = context.scratch<double>(n * rings);
  d.volatility = context.scratch<double>(n * bars);
  d.ends = context.scratch<TradeEnd>(n * 2 * (bars + 1));
  d.ranges = context.scratch<Range>(n * ranges);
  d.bits = context.scratch<std::uint32_t>(n * bits);
  d.pairs = context.scratch<std::uint32_t>(static_cast<std::size_t>(d.sets));
  return n;
}

}  // namespace

void sweep_gpu(const Call& call, LaunchContext& context) {
  if (call.items == 0) return;
  const auto& p = call.with<SweepParameters>();
  SweepDevice d = sizes_of(p);
  const std::size_t max_tickers = take_scratch(d, p, call.items, context);
  d.specs = call.input<RowSpec>(kRows);
  d.codes = call.input<SetCode>(kSets);
  for (std::size_t at = 0; at < call.items; at += max_tickers) {
    const std::size_t tickers = std::min(max_tickers, call.items - at);
    const std::size_t first = at * static_cast<std::size_t>(p.bars);
    d.open = call.input<double>(kOpen) + first;
    d.high = call.input<double>(kHigh) + first;
    d.low = call.input<double>(kLow) + first;
    d.close = call.input<double>(kClose) + first;
    d.spans = call.input<Span>(kSpan) + at;
    queue_sweep_tables(d, tickers, p.trading, context);
    queue_trades(d, p, static_cast<unsigned>(tickers),
                 call.output<Tally>(0) + at * static_cast<std::size_t>(p.sets), context);
  }
}

}  // namespace sluice::market
