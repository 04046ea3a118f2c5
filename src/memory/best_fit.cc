#include "memory/holes_by_size.h"
#include "memory/strategies.h"
#include "memory/table_strategy.h"

namespace sluice::memory {

std::unique_ptr<Strategy> make_best_fit() { return std::make_unique<TableStrategy<HolesBySize>>(); }

}  // namespace sluice::memory
