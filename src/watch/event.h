// An event that subscribers receive besides snapshots: goes to server-sent events and webhooks.
#pragma once

#include <string>

#include "base/clock.h"

namespace sluice::watch {

struct Event {
  std::string type;  // "alert", "alert_resolved", "health", "xid", "sampler"
  WallTime wall;
  std::string json;  // one line
};

}  // namespace sluice::watch
