#include "market/backtest/engine/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/printable.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

constexpr Strategy kStrategies[] = {Strategy::sma_cross, Strategy::ema_cross, Strategy::rsi,
                                    Strategy::bollinger, Strategy::momentum,  Strategy::swing};

constexpr StrategyParameter kCross[] = {
    {"fast", 20, 1, kMaxBars, true, "bars of the fast average"},
    {"slow", 50, 2, kMaxBars, true, "bars of the slow average"}};
constexpr StrategyParameter kRsi[] = {{"period", 14, 2, kMaxBars, true, "bars of the RSI"},
                                      {"lower", 30, 0, 100, false, "the RSI under which it buys"},
                                      {"upper", 70, 0, 100, false, "the RSI above which it sells"}};
constexpr StrategyParameter kBollinger[] = {
    {"period", 20, 2, kMaxBars, true, "bars of mean and deviation"},
    {"width", 2, 0, 100, false, "deviations from the mean at which it enters"},
    {"exit", 0, 0, 100, false, "deviations from the mean at which it leaves"}};
constexpr StrategyParameter kMomentum[] = {
    {"period", 60, 1, kMaxBars, true, "bars that the change is taken over"},
    {"threshold", 0, 0, 10, false, "the change that counts, as a fraction"}};
constexpr StrategyParameter kSwing[] = {
    {"fast", 20, 1, kMaxBars, true, "bars of the fast exponential average"},
    {"slow", 50, 2, kMaxBars, true, "bars of the slow exponential average"},
    {"period", 14, 2, kMaxBars, true, "bars of the RSI"},
    {"level", 40, 0, 50, false, "the RSI that a dip goes under (a peak above 100 less it)"}};

bool has_averages(Strategy strategy) {
  return strategy == Strategy::sma_cross || strategy == Strategy::ema_cross ||
         strategy == Strategy::swing;
}

bool in_range(const StrategyParameter& p, double value) {
  return value >= p.min && value <= p.max && (!p.integer || value == std::floor(value));
}

// Messages are formatted only on failure, since there may be millions of sets.
void require_ranges(Strategy strategy, const ParameterSet& set) {
  const auto all = parameters(strategy);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (in_range(all[i], set[i])) continue;
    require_range(all[i].name, set[i], all[i].min, all[i].max);
    require(false, fmt::format("{} is {}; it must be an integer", all[i].name, set[i]));
  }
}

bool in_order(Strategy strategy, const ParameterSet& set) {
  if (has_averages(strategy)) return set[0] < set[1];
  return strategy != Strategy::rsi || set[1] < set[2];
}

double axis_value(std::string_view text, std::string_view name) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value))
    return value;
  throw Error(Code::invalid_argument, fmt::format("{}: {} is no number", name, in_quotes(text)));
}

constexpr std::size_t kMaxAxisValues = 1'000'000;

[[noreturn]] void refuse_axis(std::string_view name, std::string_view values) {
  throw Error(Code::invalid_argument,
              fmt::format("{}: {} has more than a million values", name, in_quotes(values)));
}

std::vector<double> split(std::string_view text, char by, std::string_view name) {
  // Counts before reading: a text may have tens of millions of values.
  if (std::ranges::count(text, by) >= static_cast<std::ptrdiff_t>(kMaxAxisValues))
    refuse_axis(name, text);
  std::vector<double> values;
  while (true) {
    throw_if_cancelled();
    const std::size_t at = text.find(by);
    values.push_back(axis_value(text.substr(0, at), name));
    if (at == std::string_view::npos) return values;
    text.remove_prefix(at + 1);
  }
}

std::size_t index_of(Strategy strategy, std::string_view name) {
  const auto all = parameters(strategy);
  const auto found = std::ranges::find(all, name, &StrategyParameter::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  std::string names;
  for (const auto& p : all) names += fmt::format("{}{}", names.empty() ? "" : ", ", p.name);
  throw Error(Code::invalid_argument, fmt::format("{} has no parameter {}; it has {}",
                                                  to_string(strategy), in_quotes(name), names));
}

}  // namespace

std::string_view to_string(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::sma_cross: return "sma_cross";
    case Strategy::ema_cross: return "ema_cross";
    case Strategy::rsi: return "rsi";
    case Strategy::bollinger: return "bollinger";
    case Strategy::momentum: return "momentum";
    case Strategy::swing: return "swing";
  }
  return "unknown";
}

std::optional<Strategy> strategy_from(std::string_view name) noexcept {
  for (const Strategy strategy : kStrategies)
    if (name == to_string(strategy)) return strategy;
  return std::nullopt;
}

std::span<const Strategy> strategies() noexcept { return kStrategies; }

std::span<const StrategyParameter> parameters(Strategy strategy) {
  switch (strategy) {
    case Strategy::sma_cross:
    case Strategy::ema_cross: return kCross;
    case Strategy::rsi: return kRsi;
    case Strategy::bollinger: return kBollinger;
    case Strategy::momentum: return kMomentum;
    case Strategy::swing: return kSwing;
  }
  return {};
}

ParameterSet default_parameters(Strategy strategy) {
  ParameterSet set{};
  std::ranges::transform(parameters(strategy), set.begin(), &StrategyParameter::default_value);
  return set;
}

void validate(Strategy strategy, const ParameterSet& set) {
  require_ranges(strategy, set);
  if (in_order(strategy, set)) return;
  require(!has_averages(strategy),
          fmt::format("fast is {} and slow {}; fast must be less", set[0], set[1]));
  require(false, fmt::format("lower is {} and upper {}; lower must be less", set[1], set[2]));
}

std::string describe(Strategy strategy, const ParameterSet& set) {
  std::string text;
  const auto all = parameters(strategy);
  for (std::size_t i = 0; i < all.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", all[i].name, set[i]);
  return text;
}

Axis axis_from(std::string_view name, std::string_view values) {
  if (values.find(':') == std::string_view::npos)
    return {std::string(name), split(values, ',', name)};
  const std::vector<double> ends = split(values, ':', name);
  const double step = ends.size() == 3 ? ends[2] : 1;
  require(
      ends.size() <= 3 && step > 0 && ends[0] <= ends[1],
      fmt::format("{}: {} is no range; it must look like 5:50 or 5:50:5", name, in_quotes(values)));
  const double count = std::floor((ends[1] - ends[0]) / step * (1 + 1e-12)) + 1;
  if (!(count <= static_cast<double>(kMaxAxisValues))) refuse_axis(name, values);
  Axis axis{std::string(name), {}};
  for (double i = 0; i < count; ++i) axis.values.push_back(ends[0] + i * step);
  return axis;
}

std::vector<ParameterSet> grid(Strategy strategy, std::span<const Axis> axes) {
  constexpr std::size_t kMaxSets = 100'000'000;
  std::vector<ParameterSet> sets{default_parameters(strategy)};
  for (const Axis& axis : axes) {
    const std::size_t at = index_of(strategy, axis.name);
    require(!axis.values.empty(), fmt::format("{} has no values", axis.name));
    require(axis.values.size() <= kMaxSets / sets.size(),
            fmt::format("the grid has more than {} parameter sets", kMaxSets));
    std::vector<ParameterSet> wider;
    wider.reserve(sets.size() * axis.values.size());
    for (ParameterSet set : sets)
      for (const double value : axis.values) {
        set[at] = value;
        wider.push_back(set);
      }
    sets = std::move(wider);
  }
  for (const ParameterSet& set : sets) require_ranges(strategy, set);
  std::erase_if(sets, [&](const auto& set) { return !in_order(strategy, set); });
  require(!sets.empty(), "no parameter set is left: fast must be less than slow, lower than upper");
  return sets;
}

}  // namespace sluice::market
