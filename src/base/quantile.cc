#include "base/quantile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice {

double quantile(std::vector<double> values, double q) noexcept {
  if (values.empty()) return 0;
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), below, values.end());
  const auto above = std::min_element(below + 1, values.end());
  if (above == values.end()) return *below;
  return std::lerp(*below, *above, position - std::floor(position));
}

}  // namespace sluice
