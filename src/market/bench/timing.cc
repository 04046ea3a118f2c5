#include "market/bench/timing.h"

namespace sluice::market {

std::vector<double> repeated(bool quick, const std::function<double()>& once) {
  std::vector<double> seconds;
  (void)once();
  double sum = 0;
  const std::size_t least = quick ? 3 : 5, most = 200;
  while (seconds.size() < least || (sum < 0.5 && seconds.size() < most && !quick))
    sum += seconds.emplace_back(once());
  return seconds;
}

}  // namespace sluice::market
