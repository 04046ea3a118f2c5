// Lanes run along the nodes of one step. Limit: 3 operations a node (multiply, fused add,
// greatest) and two loads; of the tree only the part between "certainly exercised" and
// "certainly worthless" is visited.
#include "market/options/binomial_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/options/binomial_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "base/cancellation.h"
#include "market/options/binomial_payoffs.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using formula::kTreeLanes;
using formula::Payoffs;
using formula::TreePlan;

constexpr int kTreeStepsPerLook = 64;  // steps between two checks for cancellation

// v[j] holds node j of the later step and becomes node j of this one. Up to kTreeLanes - 1
// nodes more are done at the end: they are worthless and stay so, or are no part of the
// tree any more.
HWY_INLINE void step_american(double* v, const double* exercise, double up, double down, int begin,
                              int end) {
  const hn::CappedTag<double, kTreeLanes> d;
  const auto u = hn::Set(d, up), w = hn::Set(d, down);
  for (int j = begin; j < end; j += static_cast<int>(hn::Lanes(d))) {
    const auto held = hn::MulAdd(u, hn::LoadU(d, v + j + 1), hn::Mul(w, hn::LoadU(d, v + j)));
    hn::StoreU(hn::Max(held, hn::LoadU(d, exercise + j)), d, v + j);
  }
}

HWY_INLINE void step_european(double* v, double up, double down, int end) {
  const hn::CappedTag<double, kTreeLanes> d;
  const auto u = hn::Set(d, up), w = hn::Set(d, down);
  for (int j = 0; j < end; j += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::MulAdd(u, hn::LoadU(d, v + j + 1), hn::Mul(w, hn::LoadU(d, v + j))), d, v + j);
}

double american(const TreePlan& p, const Payoffs& payoffs, std::vector<double>& v, int certain) {
  const int n = p.steps, top = std::min(n + 1, (p.worthless + n + 1) / 2);
  const double* last = payoffs.of_step(n);
  for (int j = 0; j <= n + 1 + kTreeLanes; ++j)
    v[static_cast<std::size_t>(j)] = j < top ? std::max(last[j], 0.0) : 0.0;
  int exercised = formula::with_parity(certain, n);  // all m up to this, at the step done last
  for (int i = n - 1; i >= 0; --i) {
    if (i % kTreeStepsPerLook == 0) throw_if_cancelled();
    if (exercised >= i + 1) return payoffs.at(0);  // all nodes of the step are
    const int begin = std::max(0, (exercised + 1 + i) / 2);
    const double* exercise = payoffs.of_step(i);
    const bool known = exercised >= -(i + 1);
    if (known) v[static_cast<std::size_t>(begin)] = payoffs.at(exercised);
    const int end = std::min(i + 1, top);
    step_american(v.data(), exercise, p.up, p.down, begin, end);
    const bool also = known && exercised + 1 <= certain &&
                      (begin >= end || v[static_cast<std::size_t>(begin)] <= exercise[begin]);
    exercised += also ? 1 : -1;
  }
  return v[0];
}

double european(const TreePlan& p, const Payoffs& payoffs, std::vector<double>& v) {
  const int n = p.steps, top = std::min(n + 1, (p.worthless + n + 1) / 2);
  const double* last = payoffs.of_step(n);
  for (int j = 0; j <= n + 1 + kTreeLanes; ++j)
    v[static_cast<std::size_t>(j)] = j < top ? std::max(last[j], 0.0) : 0.0;
  for (int i = n - 1; i >= 0; --i) {
    if (i % kTreeStepsPerLook == 0) throw_if_cancelled();
    step_european(v.data(), p.up, p.down, std::min(i + 1, top));
  }
  return v[0];
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace {

HWY_EXPORT(american);
HWY_EXPORT(european);

}  // namespace

void binomial_cpu(const compute::Call& call, compute::Workers& workers) {
  const auto tree = call.with<TreeParameters>();
  const auto at = [&](std::size_t column, std::size_t i) {
    return call.input<double>(column)[call.in[column].item_bytes != 0 ? i : 0];
  };
  workers.each(call.items, 8, [&](std::size_t begin, std::size_t end) {
    formula::Payoffs payoffs(tree.steps);
    std::vector<double> v(static_cast<std::size_t>(tree.steps + 3 + formula::kTreeLanes));
    for (std::size_t i = begin; i < end; ++i) {
      const formula::TreeInput o{at(0, i), at(1, i), at(2, i), at(3, i), at(4, i), at(5, i)};
      const formula::TreePlan p =
          formula::tree_plan(tree.call != 0, tree.american != 0, tree.steps, o);
      double& out = call.output<double>(0)[i];
      out = std::nan("");
      if (!p.valid) continue;
      payoffs.fill(p);
      const double dt = o.t / tree.steps, r = tree.call != 0 ? o.yield : o.rate;
      const double q = tree.call != 0 ? o.rate : o.yield;
      out =
          tree.american == 0
              ? HWY_DYNAMIC_DISPATCH(european)(p, payoffs, v)
              : HWY_DYNAMIC_DISPATCH(american)(
                    p, payoffs, v, formula::last_certain(p, std::exp(-r * dt), std::exp(-q * dt)));
    }
  });
}

}  // namespace sluice::market
#endif  // HWY_ONCE
