// The kernel others would write for the same Asian simulation, to compare with.
#pragma once

#include <cstddef>
#include <optional>

#include "market/bench/workload.h"
#include "market/montecarlo/asian.h"

namespace sluice::market {

// cuRAND's Philox and normals, a path per thread; nothing in a build without CUDA.
std::optional<PeerLoad> curand_peer(const AsianPlan& plan, std::size_t paths);

}  // namespace sluice::market
