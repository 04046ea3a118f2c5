#include <algorithm>
#include <cmath>

#include "market/bench/workload.h"
#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"

namespace sluice::market {
namespace {

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

Workload indicator_load(std::string_view name, std::size_t series, std::size_t bars) {
  // TA-Lib's defaults, but for Bollinger's usual 20 bars.
  const Plan plan =
      indicator(name).plan(name == "BBANDS" ? Arguments{{"timeperiod", 20}} : Arguments{});
  Workload load{.unit = "pt/s",
                .operation = &operation_of(plan.rule),
                .work = static_cast<double>(series * bars),
                .needs = {.bytes = 8.0 * (plan.inputs + plan.outputs)},
                .tolerance = 1e-11,
                .checked = 64};
  load.call.items = series;
  load.call.work = static_cast<double>(bars);
  set_parameters(load, IndicatorParameters{.plan = plan, .bars = static_cast<std::int64_t>(bars)});
  add_input(load, prices(series, bars));
  for (int i = 0; i < plan.outputs; ++i) add_output<double>(load, bars);
  return load;
}

}  // namespace

Workload many_series(std::string_view which, Scale scale) {
  return scale == Scale::quick ? indicator_load(which, 1000, 1000)
                               : indicator_load(which, 10000, 10000);
}

Workload one_series(std::string_view which, Scale scale) {
  return indicator_load(which, 1, scale == Scale::quick ? 1'000'000 : 100'000'000);
}

// Series that fit the L2 cache of a core, so that memory is no limit.
Workload cached_series(std::string_view which, Scale) {
  Workload load = indicator_load(which, 32, 1000);
  load.needs = {};
  return load;
}

}  // namespace sluice::market
