// How often a figure is measured: the one place for it.
#pragma once

#include <functional>
#include <vector>

namespace sluice::market {

// Seconds of each time, `once` giving those of one: at least five times and for half a
// second, after one that is not counted. `quick`: three times.
std::vector<double> repeated(bool quick, const std::function<double()>& once);

}  // namespace sluice::market
