// The broker's statistics in Prometheus text; see exposition.h.
#pragma once

#include <string>

#include "broker/broker.h"

namespace sluice::serve {

std::string lease_exposition(const broker::Broker::Stats& stats);

}  // namespace sluice::serve
