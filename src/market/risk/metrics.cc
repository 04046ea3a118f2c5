#include "market/risk/metrics.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/risk/metrics_kernels.h"
#include "market/risk/risk_parameters.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Workers;
using formula::Fall;

constexpr std::size_t kBlocksAtATime = 64;  // of one long series, for a thread

double change(const RiskSeries& s, std::size_t bar) {
  if (!s.prices) return std::isnan(s.values[bar]) ? 0 : s.values[bar];
  const double r = bar == 0 ? 0 : s.values[bar] / s.values[bar - 1] - 1;
  return std::isnan(r) ? 0 : r;
}

struct Extremes {
  std::int64_t high, low, peak, trough;  // bars; peak and trough: of the deepest fall inside
};

// The same arithmetic as scan_blocks, so that the values are met exactly.
Extremes find_extremes(const RiskSeries& s, std::int64_t chunk) {
  const std::size_t first = static_cast<std::size_t>(chunk) * kRiskChunk;
  const std::size_t last = std::min(first + kRiskChunk, s.bars);
  const auto start = static_cast<std::int64_t>(first) - 1;
  Extremes e{start, start, start, start};
  formula::Path p;
  for (std::size_t t = first; t < last; ++t) {
    const auto bar = static_cast<std::int64_t>(t);
    p.end *= change(s, t) + 1;
    if (p.end > p.high) p.high = p.end, e.high = bar;
    if (p.end < p.low) p.low = p.end, e.low = bar;
    if (p.end / p.high < p.depth) p.depth = p.end / p.high, e.peak = e.high, e.trough = bar;
  }
  return e;
}

const formula::Path& path_of(const std::vector<RiskBlock>& blocks, std::size_t chunk) {
  return blocks[chunk / kRiskLanes].path[chunk % kRiskLanes];
}

// The first bar after `trough` where the wealth, `depth` of its peak there, is at it again.
std::int64_t find_recovery(const RiskSeries& s, const std::vector<RiskBlock>& blocks,
                           std::int64_t trough, double depth) {
  double wealth = depth;
  auto t = static_cast<std::size_t>(trough) + 1;
  while (t < s.bars) {
    if (t % kRiskChunk == 0) {
      const formula::Path& p = path_of(blocks, t / kRiskChunk);
      if (wealth * p.high < 1) {
        wealth *= p.end;
        t += kRiskChunk;
        continue;
      }
    }
    wealth *= change(s, t) + 1;
    if (wealth >= 1) return static_cast<std::int64_t>(t);
    ++t;
  }
  return -1;
}

void find_bars(const RiskSeries& s, const std::vector<RiskBlock>& blocks, const Fall& fall,
               bool recovery, RiskMetrics& out) {
  out.peak = out.trough = out.recovery = -1;
  if (fall.trough < 0) return;
  const Extremes at_trough = find_extremes(s, fall.trough);
  if (fall.peak == fall.trough) {
    out.peak = at_trough.peak;
    out.trough = at_trough.trough;
  } else {
    out.peak = fall.peak < 0 ? -1 : find_extremes(s, fall.peak).high;
    out.trough = at_trough.low;
  }
  if (recovery) out.recovery = find_recovery(s, blocks, out.trough, fall.depth);
}

void finish_series(const RiskSeries& s, const std::vector<RiskBlock>& blocks, const RiskOptions& o,
                   RiskMetrics& out) {
  formula::Totals totals;
  Fall fall;
  std::int64_t chunk = 0;
  for (const RiskBlock& block : blocks) {
    totals.moments = join(totals.moments, block.moments);
    totals.with = join(totals.with, block.with);
    totals.below += block.below;
    for (const formula::Path& path : block.path) fall.add(path, chunk++);
  }
  totals.depth = fall.depth;
  totals.wealth = fall.wealth;
  formula::finish(totals, o, out);
  find_bars(s, blocks, fall, o.find_recovery, out);
}

void risk_on_cpu(const Call& call, Workers& workers) {
  const auto& p = call.with<RiskParameters>();
  const std::size_t blocks = (p.bars + kRiskBlock - 1) / kRiskBlock;
  const auto series = [&](std::size_t i) {
    return RiskSeries{call.input<double>(0) + i * p.bars,
                      p.has_benchmark ? call.input<double>(1) : nullptr, p.bars,
                      p.options.input == RiskInput::prices, p.options.required_return};
  };
  const auto out = [&](std::size_t i) -> RiskMetrics& { return call.output<RiskMetrics>(0)[i]; };
  if (blocks > 4 * kBlocksAtATime && call.items < 4 * static_cast<std::size_t>(workers.threads())) {
    std::vector<RiskBlock> sums(blocks);
    for (std::size_t i = 0; i < call.items; ++i) {
      workers.each(blocks, kBlocksAtATime, [&](std::size_t begin, std::size_t end) {
        scan_blocks(series(i), begin, end, sums.data() + begin);
      });
      finish_series(series(i), sums, p.options, out(i));
    }
    return;
  }
  workers.each(call.items, 1 + kBlocksAtATime / (blocks + 1), [&](std::size_t b, std::size_t e) {
    std::vector<RiskBlock> sums(blocks);
    for (std::size_t i = b; i < e; ++i) {
      scan_blocks(series(i), 0, blocks, sums.data());
      finish_series(series(i), sums, p.options, out(i));
    }
  });
}

}  // namespace

compute::Outcome risk_metrics(compute::Compute& compute, std::span<const double> values,
                              std::size_t bars, std::span<const double> benchmark,
                              std::span<RiskMetrics> out, const RiskOptions& options,
                              compute::DevicePreference device) {
  require(bars > 0, "a series has no bars");
  require_length("values", values.size(), bars * out.size());
  if (!benchmark.empty()) require_length("benchmark", benchmark.size(), bars);
  require_range("periods_per_year", options.periods_per_year, 1e-6, 1e9);
  require_range("risk_free", options.risk_free, -1.0, 1.0);
  require_range("required_return", options.required_return, -1.0, 1.0);
  require_range("ddof", options.ddof, 0.0, 2.0);
  const RiskParameters parameters{options, bars, !benchmark.empty()};
  Call call{.in = {{const_cast<double*>(values.data()), bars * sizeof(double)}},
            .out = {{out.data(), sizeof(RiskMetrics)}},
            .parameters = &parameters,
            .parameters_bytes = sizeof parameters,
            .items = out.size(),
            .work = static_cast<double>(bars)};
  if (parameters.has_benchmark)
    call.in.push_back({const_cast<double*>(benchmark.data()), 0, benchmark.size_bytes()});
  return compute.run(risk_operation(), call, device);
}

void returns_of(Workers& workers, std::span<const double> prices, std::size_t bars, ReturnKind kind,
                std::span<double> out) {
  require(bars > 0 && prices.size() % bars == 0,
          "the number of prices is not a multiple of the bars");
  require_length("out", out.size(), prices.size());
  workers.each(prices.size() / bars, 1 + 4096 / bars, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double* p = prices.data() + i * bars;
      double* r = out.data() + i * bars;
      r[0] = std::nan("");
      if (kind == ReturnKind::simple)
        for (std::size_t t = 1; t < bars; ++t) r[t] = p[t] / p[t - 1] - 1;
      else
        for (std::size_t t = 1; t < bars; ++t) r[t] = std::log(p[t] / p[t - 1]);
    }
  });
}

const compute::Operation& risk_operation() {
  static const compute::Operation o{"risk_metrics", risk_on_cpu, gpu_operations().metrics};
  return o;
}

}  // namespace sluice::market
