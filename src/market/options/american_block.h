// Blocks of options and matrices for the CPU's loops over American options.
#pragma once

#include <vector>

#include "market/options/american_formula.h"

namespace sluice::market::formula {

inline constexpr int kPutLanes = 16;
using LaneArray = double[kPutLanes];

// Options side by side, with the terms that each iteration needs of them.
struct alignas(64) PutBlock {
  LaneArray spot, strike, t, rate, yield, vol;
  LaneArray root_t, log_start, log_price;
  LaneArray level[kMaxNodes], next[kMaxNodes], square[kMaxNodes];
  LaneArray value;
  LaneArray out_of_range;  // not 0: inputs out of range of the vector logarithm, `value` is wrong
  // One row for each node and point.
  LaneArray of_rate[kMaxNodes * kMaxPoints], of_yield[kMaxNodes * kMaxPoints];
  LaneArray at_points[kMaxNodes * kMaxPoints];  // the boundary; also at the final points

  void set(int lane, const Put& p) {
    const PutTerms o = put_terms(p);
    spot[lane] = p.spot;
    strike[lane] = p.strike;
    t[lane] = p.t;
    rate[lane] = o.rate;
    yield[lane] = o.yield;
    vol[lane] = o.vol;
    root_t[lane] = std::sqrt(p.t);
    log_start[lane] = o.log_start;
    log_price[lane] = std::log(p.spot / p.strike);
    out_of_range[lane] = 0;
  }
};

// L^2 at the points of the integrals as sums of its values at the nodes, without the one at
// expiry, which is zero: a row for each node and point, and for each final point. This is
// fit() and the series of level_at() in one, in the barycentric form.
struct AmericanMatrix {
  const AmericanTables& tables;
  std::vector<double> of_points, of_final_points;

  explicit AmericanMatrix(const AmericanTables& given) : tables(given) {
    for (int i = 0; i < tables.nodes; ++i)
      for (int j = 0; j < tables.points; ++j)
        add_row(of_points, node_share(tables, i) * tables.cosine_of[j]);
    for (int j = 0; j < tables.final_points; ++j) add_row(of_final_points, tables.final_cosine[j]);
  }

 private:
  void add_row(std::vector<double>& rows, double share_of_root) const {
    const int n = tables.nodes;
    double weights[kMaxNodes + 1], sum = 0;
    for (int k = 0; k <= n; ++k) {
      const double weight = (k % 2 == 0 ? 1 : -1) * (k == 0 || k == n ? 0.5 : 1);
      weights[k] = weight / (share_of_root - node_share(tables, k));
      sum += weights[k];
    }
    for (int k = 0; k < n; ++k) rows.push_back(weights[k] / sum);
  }
};

}  // namespace sluice::market::formula
