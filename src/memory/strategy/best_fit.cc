#include "memory/strategy/holes_by_size.h"
#include "memory/strategy/strategies.h"
#include "memory/strategy/table_strategy.h"

namespace sluice::memory {

std::unique_ptr<Strategy> make_best_fit() { return std::make_unique<TableStrategy<HolesBySize>>(); }

}  // namespace sluice::memory
