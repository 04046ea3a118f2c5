#include "market/backtest/engine/prices_for_tests.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace sluice::market {

PriceHistory random_history(std::size_t bars, std::uint64_t seed, double volatility) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  PriceHistory h;
  h.ticker = "T" + std::to_string(seed);
  double close = 50 + static_cast<double>(seed % 100);
  for (std::size_t t = 0; t < bars; ++t) {
    const bool still = t % 97 > 90;
    const double open = still ? close : close * std::exp(0.4 * volatility * normal(random));
    close = still ? close : open * std::exp(0.0003 + volatility * normal(random));
    const double top = std::max(open, close), bottom = std::min(open, close);
    h.days.push_back(static_cast<std::int32_t>(10000 + t + t / 5 * 2));
    h.open.push_back(open);
    h.close.push_back(close);
    h.high.push_back(still ? top : top * (1 + 0.3 * volatility * std::abs(normal(random))));
    h.low.push_back(still ? bottom : bottom * (1 - 0.3 * volatility * std::abs(normal(random))));
  }
  return h;
}

}  // namespace sluice::market
