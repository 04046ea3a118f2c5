// Plans that are kept by themselves.
#pragma once

#include <filesystem>

#include "engine/plan/config.h"
#include "engine/plan/plan.h"

namespace sluice::engine {

// The plan is among those used last.
void touch_plan(const std::filesystem::path& file);

// Writes a plan where plan_file() says and removes those that were not used for longest until
// the rest fits, with what writers left behind that were killed. False where it alone is too
// large. Throws as write_plan does.
bool put_plan(const PlanCache& cache, const Plan& plan);

}  // namespace sluice::engine
