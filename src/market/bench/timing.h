// The number of repetitions of a measurement.
#pragma once

#include <functional>
#include <vector>

namespace sluice::market {

// Returns the seconds of each repetition; `once` returns those of one. It repeats at least five
// times and for half a second, after one that does not count (`quick`: three times). When one takes
// less than two milliseconds, a repetition is the mean of as many in a row: a core needs some time
// to reach its speed.
std::vector<double> repeated(bool quick, const std::function<double()>& once);

}  // namespace sluice::market
