// Compiled without contraction of a product and a sum, so that the rows of the rules have the
// bits that the CPU's have: a signal may hang on whether two of them are equal.
#define SLUICE_RULES sweep_rules
#define SLUICE_RULES_BEGIN static_assert(true)
#define SLUICE_RULES_END static_assert(true)
#define SLUICE_RULE __device__ __forceinline__
#include <cmath>

#include "device/cuda/launch.cuh"
#include "market/backtest/sweep/sweep_tables.cuh"
#include "market/indicators/rules/bands_deviation-inl.h"
#include "market/indicators/rules/rsi_momentum-inl.h"

namespace sluice::market {
namespace {

constexpr unsigned kWarp = 32, kAll = 0xffffffffu, kThreads = 256;

// A sum kept to twice the digits.
struct Twofold {
  double high = 0, low = 0;
};
__device__ Twofold plus(Twofold a, Twofold b) {
  const double sum = a.high + b.high, part = sum - a.high;
  const double lost = (a.high - (sum - part)) + (b.high - part);
  return {sum, a.low + b.low + lost};
}

struct Running {
  Twofold closes;
  double sum = 0, squares = 0, downside = 0;
};
__device__ Running plus(const Running& a, const Running& b) {
  return {plus(a.closes, b.closes), a.sum + b.sum, a.squares + b.squares, a.downside + b.downside};
}
__device__ Running shifted(const Running& r, unsigned by) {
  return {{__shfl_up_sync(kAll, r.closes.high, by), __shfl_up_sync(kAll, r.closes.low, by)},
          __shfl_up_sync(kAll, r.sum, by),
          __shfl_up_sync(kAll, r.squares, by),
          __shfl_up_sync(kAll, r.downside, by)};
}
__device__ Running of_lane(const Running& r, int lane) {
  return {{__shfl_sync(kAll, r.closes.high, lane), __shfl_sync(kAll, r.closes.low, lane)},
          __shfl_sync(kAll, r.sum, lane),
          __shfl_sync(kAll, r.squares, lane),
          __shfl_sync(kAll, r.downside, lane)};
}

// One warp a ticker. Limit: latency, 170 rounds of 5 steps for 5,400 bars; about 50 us once.
__global__ void running_sums(SweepDevice d, Trading trading) {
  const std::size_t ticker = blockIdx.x;
  const Span span = d.spans[ticker];
  const double* close = d.close + ticker * d.bars;
  const double* fills = (trading.fill == Fill::next_open ? d.open : d.close) + ticker * d.bars;
  const double free = trading.risk_free / trading.periods_per_year;
  double2* sums = d.sums + ticker * (d.bars + 1);
  if (threadIdx.x == 0) sums[0] = {0, 0};
  Running before;
  for (std::int64_t base = 0; base < span.end; base += kWarp) {
    const std::int64_t t = base + threadIdx.x;
    const bool here = t < span.end;
    const double change = here && t > 0 ? close[t] / close[t - 1] - 1 : 0;
    Running r{{here ? close[t] : 0, 0},
              change,
              change * change,
              here && t > 0 ? below_zero_squared(change - free) : 0};
    for (unsigned by = 1; by < kWarp; by *= 2) {
      const Running left = shifted(r, by);
      if (threadIdx.x >= by) r = plus(left, r);
    }
    const Running up_to = plus(before, r), left = shifted(up_to, 1);
    const Running earlier = threadIdx.x == 0 ? before : left;
    if (here) sums[t + 1] = {up_to.closes.high, up_to.closes.low};
    if (here && t > 0) {
      d.leave(ticker)[t] = leave_at(trading, fills[t], close[t - 1],
                                    {earlier.sum, earlier.squares, earlier.downside, 0});
      d.enter(ticker)[t] =
          enter_at(trading, fills[t], close[t], {up_to.sum, up_to.squares, up_to.downside, 0});
    }
    before = of_lane(up_to, kWarp - 1);
  }
  if (threadIdx.x == 0)
    d.leave(ticker)[span.end] = {before.sum, before.squares, before.downside, close[span.end - 1]};
}

__global__ void range_level(SweepDevice d, int level) {
  const std::size_t ticker = blockIdx.y;
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t half = std::int64_t{1} << (level > 0 ? level - 1 : 0);
  const std::int64_t end = d.spans[ticker].end;
  if (t + (level > 0 ? 2 * half : 1) > end) return;
  Range* ranges = d.range(ticker);
  if (level == 0) {
    const double close = d.close[ticker * d.bars + t];
    ranges[t] = {close, close, 1};
    return;
  }
  const Range* from = ranges + (level - 1) * d.bars;
  ranges[level * d.bars + t] = joined<DeviceBits>(from[t], from[t + half]);
}

// Limit: the 8 bytes written for each value.
__global__ void simple_averages(SweepDevice d) {
  const std::size_t ticker = blockIdx.y;
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (t >= d.spans[ticker].end) return;
  const double2* sums = d.sums + ticker * (d.bars + 1) + 1;
  const double2 now = sums[t];
  for (int r = threadIdx.x; r < d.rows; r += blockDim.x) {
    const RowSpec spec = d.specs[r];
    if (spec.kind != RowKind::sma) continue;
    double value = NAN;
    if (t + 1 >= spec.period) {
      const double2 old = sums[t - spec.period];
      value = ((now.x - old.x) + (now.y - old.y)) * (1.0 / spec.period) * spec.scale;
    }
    d.row(ticker, t)[r] = value;
  }
}

// The past of a line among those of other rows.
struct Ring {
  double* at;
  std::size_t step;
  __device__ double& operator[](int i) const { return at[static_cast<std::size_t>(i) * step]; }
};

template <class R>
__device__ void run_rule(const SweepDevice& d, std::size_t ticker, int r, const Plan& plan,
                         Ring ring) {
  R rule{};
  const double* close = d.close + ticker * d.bars;
  const double scale = d.specs[r].scale;
  const std::int64_t end = d.spans[ticker].end;
  for (int i = 0; i < plan.ring; ++i) ring[i] = 0;
  for (std::int64_t t = 0; t < end; ++t) {
    double made = 0;
    rule.update(plan, close + t, ring, &made);
    d.row(ticker, t)[r] = t >= plan.lookback ? made * scale : NAN;
  }
}

// The part of make_plan.h's plans that these rules read.
__device__ Plan device_plan(const RowSpec& spec) {
  Plan p;
  const int n = spec.period;
  p.n[0] = n;
  switch (spec.kind) {
    case RowKind::ema:
      p.lookback = n - 1;
      p.k[0] = 2.0 / (n + 1);
      break;
    case RowKind::rsi:
      p.lookback = n;
      p.k[0] = (n - 1.0) / n;
      break;
    case RowKind::score:
      p.lookback = n - 1;
      p.k[0] = 1.0 / n;
      p.ring = 2 * n;
      break;
    case RowKind::change:
      p.lookback = n;
      p.ring = n;
      break;
    case RowKind::sma: break;
  }
  return p;
}

// A thread a row: neighbours write side by side. Limit: latency of the recurrences.
__global__ void other_rows(SweepDevice d) {
  namespace rules = sweep_rules;
  const std::size_t ticker = blockIdx.y;
  const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= d.rows) return;
  const RowSpec spec = d.specs[r];
  const Plan plan = device_plan(spec);
  const Ring ring{d.rings + ticker * d.ring * d.rows + r, static_cast<std::size_t>(d.rows)};
  switch (spec.kind) {
    case RowKind::sma: return;
    case RowKind::ema: return run_rule<rules::EmaRule<double>>(d, ticker, r, plan, ring);
    case RowKind::rsi: return run_rule<rules::RsiRule<double>>(d, ticker, r, plan, ring);
    case RowKind::score:
      return run_rule<rules::SpreadRule<double, SpreadForm::score>>(d, ticker, r, plan, ring);
    case RowKind::change:
      return run_rule<rules::ChangeRule<double, ChangeForm::rocp>>(d, ticker, r, plan, ring);
  }
}

// A thread a ticker, once.
__global__ void volatilities(SweepDevice d, Trading trading, std::size_t tickers) {
  const std::size_t ticker = blockIdx.x * blockDim.x + threadIdx.x;
  if (ticker >= tickers) return;
  Plan plan;
  plan.n[0] = trading.volatility_period;
  plan.k[0] = 1.0 / trading.volatility_period;
  plan.k[1] = sqrt(trading.periods_per_year);
  const Ring ring{d.rings + ticker * d.ring * d.rows, 1};
  for (int i = 0; i < 2 * trading.volatility_period; ++i) ring[i] = 0;
  const double* close = d.close + ticker * d.bars;
  double* out = d.volatility + ticker * d.bars;
  out[0] = NAN;
  sweep_rules::SpreadRule<double, SpreadForm::deviation> rule{};
  for (std::int64_t t = 1; t < d.spans[ticker].end; ++t) {
    const double change = close[t] / close[t - 1] - 1;
    double made = 0;
    rule.update(plan, &change, ring, &made);
    out[t] = t >= trading.volatility_period ? made : NAN;
  }
}

}  // namespace

void queue_sweep_tables(const SweepDevice& d, std::size_t tickers, const Trading& trading,
                        compute::LaunchContext& context) {
  const auto many = static_cast<unsigned>(tickers);
  const auto blocks = [](std::int64_t n, unsigned each) {
    return static_cast<unsigned>((n + each - 1) / each);
  };
  device::launch(context.stream(), {dim3(many), dim3(kWarp)}, running_sums, d, trading);
  if (is_all_in(trading))
    for (int level = 0; level < d.levels; ++level)
      device::launch(context.stream(), {dim3(blocks(d.bars, kThreads), many), dim3(kThreads)},
                     range_level, d, level);
  // The ring of a ticker's volatility is that of its rows, so it comes first.
  if (trading.sizing == Sizing::volatility)
    device::launch(context.stream(), {dim3(blocks(many, kWarp)), dim3(kWarp)}, volatilities, d,
                   trading, tickers);
  device::launch(context.stream(), {dim3(blocks(d.bars, 4), many), dim3(64, 4)}, simple_averages,
                 d);
  device::launch(context.stream(), {dim3(blocks(d.rows, kWarp), many), dim3(kWarp)}, other_rows, d);
}

}  // namespace sluice::market
