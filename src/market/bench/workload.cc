#include "market/bench/workload.h"

#include <cmath>

#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/montecarlo/asian.h"
#include "market/options/binomial.h"
#include "market/options/binomial_kernels.h"
#include "market/options/black_scholes.h"

namespace sluice::market {
namespace {

using compute::Call;
using compute::Operand;

// Uniform in [0, 1), another for every number.
double uniform(std::uint64_t i) { return static_cast<double>(device::mix(i) >> 11) * 0x1p-53; }

std::vector<double> draw(std::size_t count, double low, double high, std::uint64_t seed) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = low + (high - low) * uniform(seed << 40 | i);
  return values;
}

// Series of prices that wander around 100.
std::vector<double> prices(std::size_t series, std::size_t bars) {
  std::vector<double> values(series * bars);
  for (std::size_t s = 0; s < series; ++s) {
    double price = 100;
    for (std::size_t t = 0; t < bars; ++t) {
      const std::size_t at = s * bars + t;
      price += 0.02 * (100 - price) * 0.05 + 2 * (uniform(at) - 0.5);
      values[at] = price = std::fmax(price, 1);
    }
  }
  return values;
}

template <class P>
void set_parameters(Workload& load, const P& value) {
  const auto kept = std::make_shared<const P>(value);
  load.parameters = kept;
  load.call.parameters = kept.get();
  load.call.parameters_bytes = sizeof(P);
}

// ---- indicators ------------------------------------------------------------------------

Workload indicator_load(device::BenchName what, std::string_view name, std::size_t series,
                        std::size_t bars) {
  const Plan plan = indicator(name).plan();
  const auto points = series * bars;
  Workload load{.what = what,
                .unit = "pt/s",
                .operation = &operation_of(plan.rule),
                .work = static_cast<double>(points),
                .needs = {.bytes = 8.0 * (plan.inputs + plan.outputs)},
                .tolerance = 1e-11,
                .checked = std::min<std::size_t>(series, 64)};
  load.arrays.push_back(prices(series, bars));
  for (int i = 0; i < plan.outputs; ++i) load.arrays.emplace_back(points);
  load.call.items = series;
  load.call.work = static_cast<double>(bars);
  set_parameters(load, Batch{.plan = plan, .bars = static_cast<std::int64_t>(bars)});
  for (std::size_t i = 0; i < load.arrays.size(); ++i)
    (i == 0 ? load.call.in : load.call.out)
        .push_back({.data = load.arrays[i].data(), .item_bytes = bars * sizeof(double)});
  return load;
}

template <const char* const& kName>
Workload many_series(device::BenchName what, Scale scale) {
  return scale == Scale::quick ? indicator_load(what, kName, 1000, 1000)
                               : indicator_load(what, kName, 10000, 10000);
}
template <const char* const& kName>
Workload one_series(device::BenchName what, Scale scale) {
  return indicator_load(what, kName, 1, scale == Scale::quick ? 1'000'000 : 100'000'000);
}
template <const char* const& kName>
Workload cached_series(device::BenchName what, Scale) {
  return indicator_load(what, kName, 128, 1000);
}

constexpr const char* kEma = "EMA";
constexpr const char* kSma = "SMA";
constexpr const char* kRsi = "RSI";
constexpr const char* kBands = "BBANDS";

// ---- options ---------------------------------------------------------------------------

Workload black_scholes_load(device::BenchName what, Scale scale) {
  const std::size_t n = scale == Scale::gpu ? std::size_t{1} << 26 : 1 << 20;
  Workload load{.what = what,
                .unit = "pair/s",
                .operation = &black_scholes_operation<double>(),
                .work = static_cast<double>(n),
                .needs = {.bytes = 40},
                .tolerance = 1e-12,
                .checked = 4096};
  load.arrays = {
      draw(n, 50, 150, 1),    draw(n, 50, 150, 2),   draw(n, 0.1, 2, 3), {0.03}, {0.01}, {0.25},
      std::vector<double>(n), std::vector<double>(n)};
  load.call.items = n;
  for (std::size_t i = 0; i < load.arrays.size(); ++i) {
    const bool shared = load.arrays[i].size() == 1;
    (i < 6 ? load.call.in : load.call.out)
        .push_back({.data = load.arrays[i].data(),
                    .item_bytes = shared ? 0 : sizeof(double),
                    .shared_bytes = shared ? sizeof(double) : 0});
  }
  return load;
}

Workload binomial_load(device::BenchName what, Scale scale) {
  constexpr int kSteps = 1024;
  constexpr double kNodes = (kSteps + 1) * (kSteps + 2) / 2.0;
  const std::size_t n = scale == Scale::gpu ? 250'000 : scale == Scale::cpu ? 4000 : 400;
  Workload load{.what = what,
                .unit = "option/s",
                .operation = &binomial_operation(),
                .work = static_cast<double>(n),
                .needs = {.fp64 = 3 * kNodes},
                .tolerance = 1e-10,
                .checked = 256};
  load.arrays = {draw(n, 90, 110, 1),
                 draw(n, 90, 110, 2),
                 draw(n, 0.5, 1.5, 3),
                 draw(n, 0.02, 0.08, 4),
                 {0.02},
                 draw(n, 0.2, 0.4, 5),
                 std::vector<double>(n)};
  load.call.items = n;
  for (std::size_t i = 0; i < load.arrays.size(); ++i) {
    const bool shared = load.arrays[i].size() == 1;
    (i < 6 ? load.call.in : load.call.out)
        .push_back({.data = load.arrays[i].data(),
                    .item_bytes = shared ? 0 : sizeof(double),
                    .shared_bytes = shared ? sizeof(double) : 0});
  }
  set_parameters(load, TreeParameters{.call = 0, .american = 1, .steps = kSteps});
  return load;
}

// ---- Monte Carlo -----------------------------------------------------------------------

Workload asian_load(device::BenchName what, Scale scale, bool mirrored) {
  constexpr int kFixings = 252;
  const AsianOption option{
      .fixings = kFixings, .first_fixing = 1.0 / kFixings, .span = (kFixings - 1.0) / kFixings};
  const std::size_t blocks = scale == Scale::gpu ? 16384 : scale == Scale::cpu ? 128 : 16;
  Workload load{.what = what,
                .unit = "step/s",
                .operation = &asian_operation(),
                .work = static_cast<double>(blocks * kAsianBlock * kFixings * (mirrored ? 2 : 1)),
                .needs = mirrored ? Needs{.issued = 12.5, .transcendental = 2}
                                  : Needs{.issued = 18.5, .transcendental = 3},
                .tolerance = 1e-3,
                .checked = 8};
  load.arrays = {std::vector<double>(blocks * sizeof(BlockSums) / sizeof(double))};
  load.call.items = blocks;
  load.call.out = {{.data = load.arrays[0].data(), .item_bytes = sizeof(BlockSums)}};
  set_parameters(load, asian_plan(option, {.antithetic = mirrored}));
  return load;
}

Workload asian_plain(device::BenchName what, Scale scale) { return asian_load(what, scale, false); }
Workload asian_mirrored(device::BenchName what, Scale scale) {
  return asian_load(what, scale, true);
}

constexpr Figure kFigures[] = {
    {{"ema_cached", "EMA, 128 x 1,000"}, cached_series<kEma>, true},
    {{"sma_cached", "SMA, 128 x 1,000"}, cached_series<kSma>, true},
    {{"rsi_cached", "RSI, 128 x 1,000"}, cached_series<kRsi>, true},
    {{"bbands_cached", "Bollinger, 128 x 1,000"}, cached_series<kBands>, true},
    {{"ema", "EMA, 10,000 x 10,000"}, many_series<kEma>},
    {{"sma", "SMA, 10,000 x 10,000"}, many_series<kSma>},
    {{"rsi", "RSI, 10,000 x 10,000"}, many_series<kRsi>},
    {{"bbands", "Bollinger, 10,000 x 10,000"}, many_series<kBands>},
    {{"ema_long", "EMA, 1 x 100 M"}, one_series<kEma>},
    {{"rsi_long", "RSI, 1 x 100 M"}, one_series<kRsi>},
    {{"black_scholes", "Black-Scholes, call and put"}, black_scholes_load},
    {{"american_binomial", "American, 1,024-step tree"}, binomial_load},
    {{"asian", "Asian Monte Carlo"}, asian_plain},
    {{"asian_mirrored", "Asian, mirrored paths"}, asian_mirrored},
};

}  // namespace

std::span<const Figure> figures() { return kFigures; }

}  // namespace sluice::market
