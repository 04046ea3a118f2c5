// Reading the parts of a scenario that happen at a time. Internal to scenario.cc.
#pragma once

#include "scenario.h"

namespace sluice::fake {

When read_when(Object& in);
Event read_event(Object& in);

}  // namespace sluice::fake
