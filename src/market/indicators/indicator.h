// Every indicator and signal by name, with its parameters, inputs and outputs as TA-Lib
// names them: the one table that the command line, HTTP and Python read.
//
//   const Indicator& rsi = indicator("RSI");
//   const Plan plan = rsi.plan({{"timeperiod", 14}});
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "market/indicators/plan/plan.h"

namespace sluice::market {

struct Parameter {
  std::string_view name;  // TA-Lib's: timeperiod, nbdevup, matype, fastk_period, ...
  double default_value;
  double min, max;
  bool integer;
  std::string_view help;
};

enum class Input { open, high, low, close, volume };
std::string_view to_string(Input input) noexcept;

using Arguments = std::map<std::string, double, std::less<>>;

struct Indicator {
  std::string_view name;     // "BBANDS"
  std::string_view summary;  // one line
  std::string_view group;    // averages, bands, momentum, trend, volume, statistics, signals
  // Arrays, in the order they are passed. Where `any_price`, the one input may be any
  // column; it is the close unless said.
  std::vector<Input> inputs;
  bool any_price;
  std::vector<Parameter> parameters;
  std::vector<std::string_view> outputs;  // "upperband", ...; "real" for a single one
  Plan (*make)(std::span<const double> values);

  // Throws invalid_argument for a parameter it does not have or a value out of range.
  Plan plan(const Arguments& arguments = {}) const;
  // Values in the order of `parameters`; missing ones at the end take their default.
  Plan plan(std::span<const double> values) const;
};

// The indicators in the order of the documentation.
std::span<const Indicator> indicators();

// Letter case does not count. Throws not_found with the nearest names.
const Indicator& indicator(std::string_view name);

}  // namespace sluice::market
