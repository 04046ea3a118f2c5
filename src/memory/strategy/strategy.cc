#include "memory/strategy/strategy.h"

#include "memory/strategy/strategies.h"

namespace sluice::memory {

std::string_view to_string(StrategyKind kind) noexcept {
  switch (kind) {
    case StrategyKind::first_fit: return "first_fit";
    case StrategyKind::best_fit: return "best_fit";
    case StrategyKind::buddy: return "buddy";
    case StrategyKind::slab: return "slab";
  }
  return "?";
}

std::optional<StrategyKind> strategy_kind(std::string_view name) noexcept {
  for (const StrategyKind kind : kStrategyKinds)
    if (to_string(kind) == name) return kind;
  return std::nullopt;
}

std::unique_ptr<Strategy> make_strategy(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::first_fit: return make_first_fit();
    case StrategyKind::best_fit: return make_best_fit();
    case StrategyKind::buddy: return make_buddy();
    case StrategyKind::slab: return make_slab();
  }
  return nullptr;
}

}  // namespace sluice::memory
