// What compiled models need, by their plans: for the advice on batch sizes that goes with a lease.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "broker/lease/batch_size.h"
#include "engine/plan/plan.h"

namespace sluice::cli {

// Memory over the batch (the first dimension of the first input): weights, the values alive at
// once, and on a GPU what CUDA and its libraries take. Nothing where no shape was compiled.
std::optional<broker::FootprintFit> needs_of(const engine::Plan& plan);

// By name, for files by name. One that cannot be read is warned of and left out.
std::map<std::string, broker::FootprintFit> plan_needs(
    const std::map<std::string, std::string>& files);

}  // namespace sluice::cli
