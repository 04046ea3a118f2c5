// The plan cache: an LRU cache of plan files.
#pragma once

#include <filesystem>

#include "engine/plan/config.h"
#include "engine/plan/plan.h"

namespace sluice::engine {

// Marks the plan as recently used.
void touch_plan(const std::filesystem::path& file);

// Writes a plan to plan_file(), then removes the least recently used plans until the rest fits, and
// temporary files of killed writers. False if the plan alone is too large. Throws like
// write_plan().
bool put_plan(const PlanCache& cache, const Plan& plan);

}  // namespace sluice::engine
