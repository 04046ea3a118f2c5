// Exercise values at the nodes of a tree, laid out for the CPU's loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "market/options/binomial_plan.h"

namespace sluice::market::formula {

// Nodes calculated together; rows are padded by as many. Vectors of 64 bytes are slower here:
// each is loaded across two that were just stored.
inline constexpr int kTreeLanes = 4;

// Exercise values at m = -steps .. steps, even and odd m apart, so that the nodes of
// a step lie side by side: of_step(i)[j] belongs to m = 2j - i.
class Payoffs {
 public:
  explicit Payoffs(int steps) : steps_(steps) {
    for (auto& half : halves_) half.resize(static_cast<std::size_t>(steps + 3 + kTreeLanes));
  }

  void fill(const TreePlan& p) {
    const double u = std::exp(2 * p.log_up);
    for (int parity = 0; parity < 2; ++parity) {
      auto& half = halves_[parity];
      for (std::size_t i = 0; i < half.size(); ++i) {
        // A product of many factors drifts; a fresh power now and then does not.
        const int m = 2 * (static_cast<int>(i) - middle()) - parity;
        price_ = i % 64 == 0 ? p.spot * std::exp(m * p.log_up) : price_ * u;
        half[i] = p.strike - price_;
      }
    }
  }
  const double* of_step(int i) const { return halves_[i % 2].data() + middle() - (i - i % 2) / 2; }
  double at(int m) const {
    const int odd = m & 1;
    return halves_[odd][static_cast<std::size_t>((m + odd) / 2 + middle())];
  }

 private:
  int middle() const { return steps_ / 2 + 1; }
  int steps_;
  double price_ = 0;
  std::vector<double> halves_[2];
};

// The last m of step's parity that pays to exercise when both nodes after it were: price
// (1 - e^-q dt) < strike (1 - e^-r dt). Below any m when there is none.
inline int last_certain(const TreePlan& p, double discount, double yield_discount) {
  const double gain = p.strike * (1 - discount), loss = 1 - yield_discount;
  if (!(gain > 0)) return -p.steps - 3;
  const double threshold = loss > 0 ? std::min(p.strike, gain / loss) : p.strike;
  const double m = std::floor(std::log(threshold / p.spot) / p.log_up - 1e-9);
  return static_cast<int>(std::clamp(m, -p.steps - 3.0, p.steps + 3.0));
}

inline int with_parity(int m, int step) { return (m - step) % 2 == 0 ? m : m - 1; }

}  // namespace sluice::market::formula
