#include "memory/pool/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice::memory {
namespace {

StrategyKind usual_strategy(std::string_view pool) {
  if (pool == "workspace") return StrategyKind::first_fit;  // comes and goes: trims best
  if (pool == "shared") return StrategyKind::slab;          // many of few sizes
  return StrategyKind::best_fit;
}

double value(const std::map<std::string, double>& values, std::string_view pool, double usual) {
  const auto at = values.find(std::string(pool));
  return at == values.end() ? usual : at->second;
}

template <class T>
void check_names(std::string_view field, const std::map<std::string, T>& values,
                 std::vector<std::string>& found) {
  for (const auto& [pool, _] : values)
    if (std::find(std::begin(kPoolNames), std::end(kPoolNames), pool) == std::end(kPoolNames))
      found.push_back(std::string(field) + " names the pool " + pool +
                      "; there are default, workspace, persistent and shared");
}

}  // namespace

void MemoryConfig::check_together(std::vector<std::string>& found) const {
  check_names("strategy", strategy, found);
  check_names("initial_mb", initial_mb, found);
  check_names("growth_mb", growth_mb, found);
  check_names("ceiling_gb", ceiling_gb, found);
  for (const auto& [pool, mb] : initial_mb)
    if (const auto at = ceiling_gb.find(pool); at != ceiling_gb.end() && mb > at->second * 1024)
      found.push_back("initial_mb of " + pool + " is above its ceiling_gb");
}

PoolOptions MemoryConfig::options(std::string_view pool) const {
  constexpr double kMiB = 1 << 20;
  PoolOptions made;
  const auto named = strategy.find(std::string(pool));
  const auto kind = named == strategy.end() ? std::nullopt : strategy_kind(named->second);
  made.strategy = kind.value_or(usual_strategy(pool));
  made.initial = static_cast<std::size_t>(value(initial_mb, pool, 0) * kMiB);
  made.growth = static_cast<std::size_t>(value(growth_mb, pool, 16) * kMiB);
  const double ceiling = value(ceiling_gb, pool, 0);
  if (ceiling > 0) made.ceiling = static_cast<std::size_t>(ceiling * 1024 * kMiB);
  return made;
}

Json to_json(const MemoryConfig& config) {
  return {{"strategy", config.strategy},
          {"initial_mb", config.initial_mb},
          {"growth_mb", config.growth_mb},
          {"ceiling_gb", config.ceiling_gb}};
}

MemoryConfig memory_config_from(std::string_view text) try {
  const Json json = Json::parse(text);
  MemoryConfig made;
  json.at("strategy").get_to(made.strategy);
  json.at("initial_mb").get_to(made.initial_mb);
  json.at("growth_mb").get_to(made.growth_mb);
  json.at("ceiling_gb").get_to(made.ceiling_gb);
  return made;
} catch (const Json::exception& e) {
  throw Error(Code::invalid_argument, std::string("no memory settings: ") + e.what());
}

}  // namespace sluice::memory
