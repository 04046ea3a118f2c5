// Random walks with the columns of a price file.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"

namespace sluice::market {

// Open, high, low, close and volume, series-major.
struct Market {
  std::size_t series, bars;
  std::vector<double> column[5];

  Market(std::size_t s, std::size_t b, unsigned seed = 1) : series(s), bars(b) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> step(0, 0.01);
    for (std::size_t i = 0; i < s; ++i) {
      double price = 100;
      for (std::size_t t = 0; t < b; ++t) {
        const double open = price;
        price *= std::exp(step(random));
        const double spread = std::fabs(step(random)) * price;
        column[0].push_back(open);
        column[1].push_back(std::max(open, price) + spread);
        column[2].push_back(std::min(open, price) - spread);
        column[3].push_back(price);
        column[4].push_back(std::floor(1e6 * std::exp(10 * step(random))));
      }
    }
  }

  Arrays<const double> inputs(const Indicator& one) const {
    Arrays<const double> in;
    for (const Input input : one.inputs) in.push_back(column[static_cast<int>(input)]);
    return in;
  }
};

}  // namespace sluice::market
