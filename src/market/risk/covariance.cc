#include "market/risk/covariance.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "base/cancellation.h"
#include "base/error.h"
#include "kernels/gemm/gemm.h"
#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/risk/covariance_formula.h"
#include "market/risk/risk_parameters.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Workers;

// Rows of a slab of the product. More slabs save more of a symmetric one, and pack the other
// operand more often.
constexpr std::size_t kMinSlab = 48, kSlabs = 4;

// A data set made ready: rows about their mean, 0 where a value is missing.
struct CentredRows {
  std::vector<double> values;
  std::vector<double> present;  // 1 or 0, both with the weights' root; empty: all are there
};

// out[i * n + j] = sum over t of a[i * bars + t] * b[j * bars + t], for all j, or
// (`lower_only`) at least for j <= i. Ends between two slabs of rows when the caller is cancelled.
void gemm_nt(Workers& workers, const double* a, const double* b, std::size_t n, std::size_t bars,
             bool lower_only, double* out) {
  constexpr double kSlabWork = 1 << 28;  // multiply-adds: some milliseconds
  const auto bounded = static_cast<std::size_t>(kSlabWork / (static_cast<double>(n * bars) + 1));
  const std::size_t rows = std::max<std::size_t>(kMinSlab, std::min(bounded, n / kSlabs));
  const auto k = static_cast<std::int64_t>(bars);
  for (std::size_t begin = 0; begin < n; begin += rows) {
    throw_if_cancelled();
    const std::size_t end = std::min(n, begin + rows);
    kernels::matmul<double>(workers, static_cast<std::int64_t>(end - begin),
                            static_cast<std::int64_t>(lower_only ? end : n), k,
                            {a + begin * bars, k, 1}, {b, 1, k}, out + begin * n,
                            static_cast<std::int64_t>(n));
  }
}

// The sum of x - shift, NaN where a value is: eight sums side by side, so that no addition waits
// for the one before it.
double sum_about(const double* x, std::size_t bars, double shift) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes] = {};
  std::size_t t = 0;
  for (; t + kLanes <= bars; t += kLanes)
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] += x[t + i] - shift;
  for (; t < bars; ++t) lanes[t % kLanes] += x[t] - shift;
  for (std::size_t i = 1; i < kLanes; ++i) lanes[0] += lanes[i];
  return lanes[0];
}

// Of the values that are there.
double mean_of_some(const double* x, std::size_t bars) {
  double sum = 0, n = 0, rest = 0;
  for (std::size_t t = 0; t < bars; ++t)
    if (!std::isnan(x[t])) sum += x[t], n += 1;
  const double mean = n > 0 ? sum / n : 0;
  for (std::size_t t = 0; t < bars; ++t)
    if (!std::isnan(x[t])) rest += x[t] - mean;
  return n > 0 ? mean + rest / n : 0;
}

struct Mean {
  double value;
  bool missing;  // a value is
};

Mean mean_of(const double* x, std::size_t bars) {
  const double n = static_cast<double>(bars), mean = sum_about(x, bars, 0) / n;
  if (std::isnan(mean)) return {mean_of_some(x, bars), true};
  return {mean + sum_about(x, bars, mean) / n, false};
}

// The mean with a 0 for each missing value.
double filled_mean(const double* x, std::size_t bars) {
  double sum = 0;
  for (std::size_t t = 0; t < bars; ++t) sum += std::isnan(x[t]) ? 0 : x[t];
  return sum / static_cast<double>(bars);
}

std::vector<double> root_weights(const CovarianceParameters& p) {
  std::vector<double> w(p.bars, 1.0);
  if (p.options.kind != CovarianceKind::ewma) return w;
  const double keep = std::log1p(-2 / (p.options.span + 1)) / 2;
  for (std::size_t t = 0; t < p.bars; ++t)
    w[t] = std::exp(keep * static_cast<double>(p.bars - 1 - t));
  return w;
}

CentredRows make_rows(const double* x, const CovarianceParameters& p, Workers& workers) {
  const bool fill = p.options.kind == CovarianceKind::ledoit_wolf;
  const std::size_t grain = 1 + 8192 / p.bars;
  std::vector<double> means(p.series);
  std::atomic<bool> missing = false;
  workers.each(p.series, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Mean mean = mean_of(x + i * p.bars, p.bars);
      means[i] = fill && mean.missing ? filled_mean(x + i * p.bars, p.bars) : mean.value;
      if (mean.missing && !fill) missing = true;
    }
  });
  CentredRows rows{std::vector<double>(p.series * p.bars), {}};
  // EWMA needs the sum of the weights, which is that of the rows of ones.
  if (missing) rows.present.resize(p.series * p.bars);
  const auto w = root_weights(p);
  workers.each(p.series, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double* from = x + i * p.bars;
      double* to = rows.values.data() + i * p.bars;
      for (std::size_t t = 0; t < p.bars; ++t) {
        const bool there = !std::isnan(from[t]);
        to[t] = there ? (from[t] - means[i]) * w[t] : fill ? -means[i] : 0;
        if (!rows.present.empty()) rows.present[i * p.bars + t] = there ? w[t] : 0;
      }
    }
  });
  return rows;
}

void mirror(double* m, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) m[j * n + i] = m[i * n + j];
}

double shrink(const CentredRows& rows, const CovarianceParameters& p, double* out) {
  const std::size_t n = p.series;
  const double bars = static_cast<double>(p.bars);
  double total = 0, squares = 0, fourth = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) squares += 2 * out[i * n + j] * out[i * n + j];
    squares += out[i * n + i] * out[i * n + i];
    total += out[i * n + i] / bars;
  }
  std::vector<double> at(p.bars, 0.0);  // sum of squares of each bar
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t t = 0; t < p.bars; ++t) {
      const double v = rows.values[i * p.bars + t];
      at[t] += v * v;
    }
  for (const double s : at) fourth += s * s;
  const double shrinkage = formula::ledoit_wolf_shrinkage(total, squares / (bars * bars), fourth,
                                                          static_cast<double>(n), bars);
  const double year = p.options.periods_per_year, scale = (1 - shrinkage) / bars * year;
  for (std::size_t i = 0; i < n * n; ++i) out[i] *= scale;
  for (std::size_t i = 0; i < n; ++i)
    out[i * n + i] += shrinkage * total / static_cast<double>(n) * year;
  return shrinkage;
}

void covariance_of_set(const double* x, const CovarianceParameters& p, Workers& workers,
                       double* out, double* shrinkage) {
  const std::size_t n = p.series;
  const CentredRows rows = make_rows(x, p, workers);
  const double* v = rows.values.data();
  gemm_nt(workers, v, v, n, p.bars, true, out);
  *shrinkage = 0;
  if (p.options.kind == CovarianceKind::ledoit_wolf) {
    mirror(out, n);
    *shrinkage = shrink(rows, p, out);
    return;
  }
  if (rows.present.empty()) {
    double weight = 0;
    for (const double w : root_weights(p)) weight += w * w;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        out[i * n + j] = formula::covariance_of(out[i * n + j], 0, 0, weight, p.options);
  } else {
    std::vector<double> sums(n * n), counts(n * n);
    gemm_nt(workers, v, rows.present.data(), n, p.bars, false, sums.data());
    gemm_nt(workers, rows.present.data(), rows.present.data(), n, p.bars, true, counts.data());
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        out[i * n + j] = formula::covariance_of(out[i * n + j], sums[i * n + j], sums[j * n + i],
                                                counts[i * n + j], p.options);
  }
  mirror(out, n);
}

void covariance_on_cpu(const Call& call, Workers& workers) {
  const auto& p = call.with<CovarianceParameters>();
  const auto one = [&](std::size_t i) {
    covariance_of_set(call.input<double>(0) + i * p.series * p.bars, p, workers,
                      call.output<double>(0) + i * p.series * p.series, call.output<double>(1) + i);
  };
  if (call.items < static_cast<std::size_t>(workers.threads())) {
    for (std::size_t i = 0; i < call.items; ++i) one(i);
    return;
  }
  workers.each(call.items, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) one(i);
  });
}

}  // namespace

compute::Outcome covariance(compute::Compute& compute, std::span<const double> returns,
                            std::size_t series, std::size_t bars, std::span<double> out,
                            const CovarianceOptions& options, std::span<double> shrinkage,
                            compute::DevicePreference device) {
  require(series > 0 && bars > 0, "a data set has no series or no bars");
  require(!out.empty() && out.size() % (series * series) == 0,
          "the size of out is not a multiple of series x series");
  const std::size_t sets = out.size() / (series * series);
  require_length("returns", returns.size(), sets * series * bars);
  if (!shrinkage.empty()) require_length("shrinkage", shrinkage.size(), sets);
  require_range("ddof", options.ddof, 0.0, 2.0);
  require_range("span", options.span, 1.001, 1e9);
  require_range("periods_per_year", options.periods_per_year, 1e-6, 1e9);
  const CovarianceParameters parameters{options, series, bars};
  std::vector<double> shares(shrinkage.empty() ? sets : 0);
  const double n = static_cast<double>(series);
  const Call call{.in = {{const_cast<double*>(returns.data()), series * bars * sizeof(double)}},
                  .out = {{out.data(), series * series * sizeof(double)},
                          {shrinkage.empty() ? shares.data() : shrinkage.data(), sizeof(double)}},
                  .parameters = &parameters,
                  .parameters_bytes = sizeof parameters,
                  .items = sets,
                  .work = n * n * static_cast<double>(bars)};
  return compute.run(covariance_operation(), call, device);
}

const compute::Operation& covariance_operation() {
  static const compute::Operation o{"covariance", covariance_on_cpu, gpu_operations().covariance};
  return o;
}

}  // namespace sluice::market
