// Memory footprints of compiled models, from their plans, for the advised batch size of a lease.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "broker/lease/batch_size.h"
#include "engine/plan/plan.h"

namespace sluice::cli {

// Memory over the batch (the first dimension of the first input): weights, the values alive at
// once, and on a GPU what CUDA and its libraries take. Nothing where no shape was compiled.
std::optional<broker::FootprintFit> footprint_of(const engine::Plan& plan);

// By name, for files by name. One that cannot be read is warned of and left out.
std::map<std::string, broker::FootprintFit> plan_footprints(
    const std::map<std::string, std::string>& files);

}  // namespace sluice::cli
