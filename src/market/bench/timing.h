// The number of repetitions of a measurement.
#pragma once

#include <functional>
#include <vector>

namespace sluice::market {

// Seconds of each time, `once` giving those of one: at least five times and for half a
// second, after one that is not counted. `quick`: three times. Where one takes less than two
// milliseconds a time is the mean of as many in a row: a core needs some to reach its speed.
std::vector<double> repeated(bool quick, const std::function<double()>& once);

}  // namespace sluice::market
