// The rules that a backtest can follow, with their parameters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::market {

// The position of each strategy at the close of a bar. There is none during the warm-up:
//   sma_cross, ema_cross  long while the fast average is above the slow one, else short
//   rsi         long from RSI < lower until RSI > upper, then short until it is < lower
//   bollinger   long from a close `width` deviations under its mean until it is within
//               `exit` of it again; short the same way above
//   momentum    long while the price rose by more than `threshold` over `period` bars,
//               short while it fell by more
//   swing       while the fast average is above the slow one, long when the RSI comes back
//               up through `level`, until the averages cross; short the same way below
// Two averages nearer than 1e-10 of their size count as equal: noise is no signal.
enum class Strategy : std::int32_t { sma_cross, ema_cross, rsi, bollinger, momentum, swing };
inline constexpr double kSameAverage = 1e-10;

std::string_view to_string(Strategy strategy) noexcept;
std::optional<Strategy> strategy_from(std::string_view name) noexcept;
std::span<const Strategy> strategies() noexcept;

struct StrategyParameter {
  std::string_view name;
  double default_value, min, max;
  bool integer;
  std::string_view help;
};
// The parameters are in the order of a ParameterSet.
std::span<const StrategyParameter> parameters(Strategy strategy);

inline constexpr std::size_t kMaxStrategyParameters = 4;
using ParameterSet = std::array<double, kMaxStrategyParameters>;  // unused ones are 0

ParameterSet default_parameters(Strategy strategy);
// Throws invalid_argument, naming the parameter and its range; a fast average must be
// shorter than the slow one.
void validate(Strategy strategy, const ParameterSet& set);
// Returns "fast=10 slow=50".
std::string describe(Strategy strategy, const ParameterSet& set);

// The values that a sweep tries for one parameter.
struct Axis {
  std::string name;
  std::vector<double> values;
};
// Reads "5", "5,10,20", "5:50" or "5:50:5" (both ends included). Throws invalid_argument.
Axis axis_from(std::string_view name, std::string_view values);

// Returns every combination, the last axis fastest; parameters without an axis keep their default.
// Leaves out combinations that validate() refuses because fast >= slow. Throws invalid_argument for
// an unknown name, a value out of range, or none left.
std::vector<ParameterSet> grid(Strategy strategy, std::span<const Axis> axes);

}  // namespace sluice::market
