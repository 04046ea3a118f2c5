#include <fmt/format.h>

#include <cmath>

#include "market/bench/workload.h"
#include "market/math/normal.h"
#include "market/risk/risk_parameters.h"

namespace sluice::market {
namespace {

// Four uniforms are near enough to a normal distribution.
std::vector<double> returns(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = device::mix(i);
    const auto part = [bits](int k) { return static_cast<double>(bits >> 16 * k & 0xffff); };
    const double sum = part(0) + part(1) + part(2) + part(3);
    values[i] = 0.0004 + 0.01 * (sum * 0x1p-16 - 2) * std::sqrt(3.0);
  }
  return values;
}

struct Shape {
  std::size_t series, bars;
};

Workload returns_load(const compute::Operation& operation, Shape shape) {
  Workload load{.unit = "bar/s",
                .operation = &operation,
                .work = static_cast<double>(shape.series * shape.bars),
                .needs = {.bytes = 8},
                .tolerance = 1e-9,
                .checked = 100};
  load.call.items = shape.series;
  load.call.work = static_cast<double>(shape.bars);
  add_input(load, returns(shape.series * shape.bars));
  return load;
}

}  // namespace

Workload metrics_load(std::string_view which, Scale scale) {
  const std::size_t more = scale == Scale::quick ? 1 : scale == Scale::cpu ? 10 : 100;
  const Shape shape = which == "long" ? Shape{1, 1'000'000 * more} : Shape{100 * more, 10000};
  Workload load = returns_load(risk_operation(), shape);
  set_parameters(load, RiskParameters{.options = {.find_recovery = which == "recovery"},
                                      .bars = shape.bars,
                                      .has_benchmark = false});
  add_output<RiskMetrics>(load);
  return load;
}

Workload tail_load(std::string_view which, Scale scale) {
  const std::size_t more = scale == Scale::quick ? 1 : scale == Scale::cpu ? 10 : 100;
  const Shape shape = which == "long" ? Shape{10 * more, 100000} : Shape{100 * more, 10000};
  Workload load = returns_load(tail_operation(), shape);
  const double z = normal_quantile(TailOptions{}.cutoff);
  set_parameters(load, TailParameters{{}, shape.bars, z, normal_density(z)});
  add_output<TailRisk>(load);
  return load;
}

// Each pair of series once, two operations a bar.
Workload covariance_load(std::string_view which, Scale scale) {
  const Shape shape = which == "few" || scale == Scale::quick ? Shape{500, 1260}
                      : scale == Scale::cpu                   ? Shape{1000, 2520}
                                                              : Shape{4000, 2520};
  const auto n = static_cast<double>(shape.series);
  Workload load{.unit = "FLOP/s",
                .operation = &covariance_operation(),
                .work = n * (n + 1) * static_cast<double>(shape.bars),
                .needs = {.matrix_fp64 = 1},
                .tolerance = 1e-11,
                .note = fmt::format("{} series x {} bars", shape.series, shape.bars)};
  load.call.items = 1;
  add_input(load, returns(shape.series * shape.bars));
  set_parameters(load, CovarianceParameters{{}, shape.series, shape.bars});
  add_output<double>(load, shape.series * shape.series);
  add_output<double>(load);
  return load;
}

}  // namespace sluice::market
