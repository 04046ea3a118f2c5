#include "market/risk/tail.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/math/normal.h"
#include "market/risk/metrics_kernels.h"
#include "market/risk/risk_parameters.h"
#include "market/risk/tail_formula.h"
#include "market/risk/tail_kernels.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Workers;
using formula::TailRank;

// The tail of `low`, the smallest of n values and at least rank + 2 of them (or all n).
TailRisk tail_of(std::span<double> low, std::size_t n, const TailRank& want,
                 TailConvention convention) {
  const auto at = low.begin() + static_cast<std::ptrdiff_t>(want.rank);
  std::nth_element(low.begin(), at, low.end());
  double value = *at;
  if (want.share > 0 && at + 1 != low.end())
    value = formula::between(value, *std::min_element(at + 1, low.end()), want.share);
  const auto end = want.worst > 0 ? low.begin() + static_cast<std::ptrdiff_t>(want.worst) : at + 1;
  double sum = 0;
  std::size_t worst = 0;
  // QuantLib's mean is of those below its (floored) VaR only.
  const double limit = want.worst > 0 ? INFINITY : std::min(value, 0.0);
  for (auto x = low.begin(); x != end; ++x)
    if (*x < limit || want.worst > 0) sum += *x, ++worst;
  return formula::finish_tail(n, value, sum, worst, convention);
}

// A value above somewhat more than `share` of the series, estimated from a sample.
double guess_limit(const double* x, std::size_t n, double share) {
  constexpr std::size_t kSample = 1024;
  double sample[kSample];
  std::size_t m = 0;
  for (std::size_t i = 0; i < kSample; ++i) {
    // The steps have uneven lengths, so that they do not meet a rhythm of the series.
    const std::size_t at = (i * n + (i * 2654435761u) % n) / kSample;
    if (!std::isnan(x[at])) sample[m++] = x[at];
  }
  if (m < 64) return INFINITY;
  const double s = static_cast<double>(m);
  const double rank = share * s + 4 * std::sqrt(share * (1 - share) * s) + 4;
  if (rank >= s - 1) return INFINITY;
  std::nth_element(sample, sample + static_cast<std::size_t>(rank), sample + m);
  return sample[static_cast<std::size_t>(rank)];
}

// Keeps the values under a guess in one pass and selects among those; when the guess was
// too low, among all.
TailRisk historical(const double* x, std::size_t bars, const TailOptions& o,
                    std::span<double> scratch) {
  double limit = bars < 4096 ? INFINITY : guess_limit(x, bars, o.cutoff);
  for (;;) {
    const Kept k = keep_at_most(x, bars, limit, scratch.data(), scratch.size());
    if (k.present == 0) return {0, NAN, NAN};
    const TailRank want = formula::tail_rank(k.present, o);
    if (k.kept == k.present || k.kept >= want.rank + 2)
      return tail_of(scratch.first(k.kept), k.present, want, o.convention);
    limit = INFINITY;
  }
}

TailRisk parametric(const double* x, const TailParameters& p) {
  const std::size_t bars = p.bars;
  const std::size_t blocks = (bars + kRiskBlock - 1) / kRiskBlock;
  formula::Moments m;
  for (std::size_t b = 0; b < blocks; ++b) {
    RiskBlock block;
    scan_blocks({x, nullptr, bars, false, 0}, b, b + 1, &block);
    m = join(m, block.moments);
  }
  const double deviation = m.n > 1 ? std::sqrt(m.m2 / (m.n - 1)) : NAN;
  return formula::normal_tail(m.n, m.n > 0 ? m.mean : NAN, deviation, p.z, p.density, p.options);
}

void tail_on_cpu(const Call& call, Workers& workers) {
  const auto& p = call.with<TailParameters>();
  workers.each(call.items, 1 + 32768 / p.bars, [&](std::size_t begin, std::size_t end) {
    std::vector<double> scratch(p.bars + kMaxLanes);
    for (std::size_t i = begin; i < end; ++i) {
      const double* x = call.input<double>(0) + i * p.bars;
      call.output<TailRisk>(0)[i] = p.options.method == TailMethod::historical
                                        ? historical(x, p.bars, p.options, scratch)
                                        : parametric(x, p);
    }
  });
}

}  // namespace

compute::Outcome tail_risk(compute::Compute& compute, std::span<const double> returns,
                           std::size_t bars, std::span<TailRisk> out, const TailOptions& options,
                           compute::DevicePreference device) {
  require(bars > 0, "a series has no bars");
  require_length("returns", returns.size(), bars * out.size());
  require_range("cutoff", options.cutoff, 1e-9, 1 - 1e-9);
  const double z = normal_quantile(options.cutoff);
  const TailParameters parameters{options, bars, z, normal_density(z)};
  const Call call{.in = {{const_cast<double*>(returns.data()), bars * sizeof(double)}},
                  .out = {{out.data(), sizeof(TailRisk)}},
                  .parameters = &parameters,
                  .parameters_bytes = sizeof parameters,
                  .items = out.size(),
                  .work = static_cast<double>(bars)};
  return compute.run(tail_operation(), call, device);
}

const compute::Operation& tail_operation() {
  static const compute::Operation o{"tail_risk", tail_on_cpu, gpu_operations().tail};
  return o;
}

}  // namespace sluice::market
