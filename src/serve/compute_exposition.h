// What was calculated where, in Prometheus text.
#pragma once

#include <string>

#include "serve/market_desk.h"

namespace sluice::serve {

std::string compute_exposition(const MarketDesk::Figures& figures);

}  // namespace sluice::serve
