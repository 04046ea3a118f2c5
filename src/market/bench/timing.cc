#include "market/bench/timing.h"

#include <algorithm>

namespace sluice::market {

std::vector<double> repeated(bool quick, const std::function<double()>& once) {
  constexpr double kShortest = 0.002;
  const int in_a_row = static_cast<int>(std::clamp(kShortest / std::max(once(), 1e-9), 1.0, 1e4));
  std::vector<double> seconds;
  double sum = 0;
  const std::size_t min_samples = quick ? 3 : 5, max_samples = 200;
  while (seconds.size() < min_samples || (sum < 0.5 && seconds.size() < max_samples && !quick)) {
    double row = 0;
    for (int i = 0; i < in_a_row; ++i) row += once();
    sum += row;
    seconds.push_back(row / in_a_row);
  }
  return seconds;
}

}  // namespace sluice::market
