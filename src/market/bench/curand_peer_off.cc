#include "market/bench/curand_peer.h"

namespace sluice::market {

std::optional<PeerLoad> curand_peer(const AsianPlan&, std::size_t) { return std::nullopt; }

}  // namespace sluice::market
