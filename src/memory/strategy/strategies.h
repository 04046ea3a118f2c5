// The makers behind make_strategy, one per file.
#pragma once

#include <memory>

#include "memory/strategy/strategy.h"

namespace sluice::memory {

std::unique_ptr<Strategy> make_first_fit();
std::unique_ptr<Strategy> make_best_fit();
std::unique_ptr<Strategy> make_buddy();
std::unique_ptr<Strategy> make_slab();

}  // namespace sluice::memory
