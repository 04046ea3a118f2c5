// Quantiles of a list of numbers.
#pragma once

#include <vector>

namespace sluice {

// Interpolates linearly between the two nearest values, as NumPy does; 0 for an empty list. `q` is
// in 0..1.
double quantile(std::vector<double> values, double q) noexcept;

}  // namespace sluice
