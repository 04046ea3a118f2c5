// The nodes of a tree that must be calculated for one option, and those known beforehand.
//
// A call on (spot, strike, rate, yield) is worth a put on (strike, spot, yield, rate), on
// the tree as well: only puts are calculated. Nodes are numbered by m, the price there
// being spot u^m; at step i there are those with m = -i, -i+2 .. i.
//   Worthless: at step i all m >= worthless + (steps - i).
//   Exercised at every step: all m <= exercised, by the tree of a perpetual option,
//     which is worth more than this one at every node: where even that is exercised, so
//     is this.
// The rest is a strip: a third of the tree for an option near the money.
#pragma once

#include <cmath>

#include "compute/hd.h"

namespace sluice::market::formula {

struct TreePlan {
  double spot, strike, log_up;  // of the put
  double up, down;              // discounted probabilities
  int steps;
  int worthless;        // first m worth nothing at the end; may lie beyond the tree
  int exercised;        // last m that is always exercised; below -steps: none
  bool valid, at_once;  // at_once: exercised now, worth strike - spot
};

struct TreeInput {
  double spot, strike, t, rate, yield, vol;
};

// The first integer m with x u^m >= k, a hair on the safe side for worthless nodes.
SLUICE_HD inline int level(double log_ratio, double log_up, int steps) {
  const double m = std::ceil(log_ratio / log_up + 1e-9);
  return m > steps + 2 ? steps + 2 : m < -steps - 2 ? -steps - 2 : static_cast<int>(m);
}

// Without expiry, the value falls by the factor `shrink` from one node up to the next; exercising
// at m or below is best for the m that makes (strike - spot u^m) / shrink^m greatest.
SLUICE_HD inline int always_exercised(const TreePlan& p) {
  const double root = std::sqrt(1 - 4 * p.up * p.down);
  const double shrink = (1 - root) / (2 * p.up);
  if (!(shrink > 0 && shrink < 1)) return -p.steps - 2;
  // Continuous optimum S = K b / (1 + b), b = -log(shrink) / log_up; the best integer m is
  // within 1 of it, and one step more is left for rounding.
  const double b = -std::log(shrink) / p.log_up;
  const double m = std::floor((std::log(p.strike / p.spot) + std::log(b / (1 + b))) / p.log_up) - 3;
  return m < -p.steps - 2 ? -p.steps - 2 : m > p.steps + 2 ? p.steps + 2 : static_cast<int>(m);
}

SLUICE_HD inline TreePlan tree_plan(bool call, bool american, int steps, TreeInput o) {
  if (call) o = {o.strike, o.spot, o.t, o.yield, o.rate, o.vol};
  TreePlan p{};
  p.spot = o.spot;
  p.strike = o.strike;
  p.steps = steps;
  const double dt = o.t / steps;
  p.log_up = o.vol * std::sqrt(dt);
  const double u = std::exp(p.log_up), d = std::exp(-p.log_up), discount = std::exp(-o.rate * dt);
  const double probability = (std::exp((o.rate - o.yield) * dt) - d) / (u - d);
  p.up = discount * probability;
  p.down = discount * (1 - probability);
  p.valid = o.spot > 0 && o.strike > 0 && o.t > 0 && o.vol > 0 && probability >= 0 &&
            probability <= 1 && p.log_up < 1e3 && o.spot < 1e300 && o.strike < 1e300;
  if (!p.valid) return p;
  p.worthless = level(std::log(o.strike / o.spot), p.log_up, steps);
  p.exercised = american && o.rate > 0 ? always_exercised(p) : -steps - 2;
  p.at_once = p.exercised >= 0;
  return p;
}

// The strip of nodes that has to be calculated: `count` from m = low on, every second m. At
// steps of the last one's parity node k is m = low + 2k, at the others m = low + 2k + 1.
// Nodes above the strip are worthless or cannot reach the root, and so with those below
// unless they are exercised, whose value is known.
struct Strip {
  int low, count;
};

SLUICE_HD inline Strip strip_of(const TreePlan& p) {
  const int lowest = p.exercised > -p.steps - 2 ? p.exercised : -p.steps - 2;
  const int low = lowest - ((lowest - p.steps) & 1);
  const int reaches = (p.steps + p.worthless) / 2 + 1;
  const int high = p.steps < reaches ? p.steps : reaches;
  return {low, (high - low) / 2 + 2};
}

}  // namespace sluice::market::formula
