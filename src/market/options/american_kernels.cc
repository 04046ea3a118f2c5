// A lane per option: the formulas are written for one, and the compiler turns the loops over
// a block of them into vectors, once for each instruction set that Highway knows. What does
// not change from one iteration to the next is calculated once, and the Chebyshev series with
// it: where it is evaluated is the same for all options, so it is one matrix.
#include "market/options/american_kernels.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/cancellation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/options/american_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/options/american_block.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using fast::HostMath;
using formula::Bracket;
using formula::kPutLanes;
using formula::LaneArray;
using formula::PutBlock;
using formula::PutTerms;
using formula::QdTerms;

[[gnu::always_inline]] inline PutTerms terms_of(const PutBlock& b, int l) {
  return {b.rate[l], b.yield[l], b.vol[l], b.log_start[l]};
}

struct QdLanes {
  LaneArray inverse, half, drift, discount, payout, slope, on_gain, on_theta;

  [[gnu::always_inline]] QdTerms at(int l) const {
    return {inverse[l], half[l],  drift[l],   discount[l],
            payout[l],  slope[l], on_gain[l], on_theta[l]};
  }
  [[gnu::always_inline]] void set(int l, const QdTerms& q) {
    inverse[l] = q.inverse;
    half[l] = q.half;
    drift[l] = q.drift;
    discount[l] = q.discount;
    payout[l] = q.payout;
    slope[l] = q.slope;
    on_gain[l] = q.on_gain;
    on_theta[l] = q.on_theta;
  }
};

struct BracketLanes {
  LaneArray low, high, at_low, at_high, width;

  [[gnu::always_inline]] Bracket at(int l) const {
    return {low[l], high[l], at_low[l], at_high[l], width[l]};
  }
  [[gnu::always_inline]] void set(int l, const Bracket& b) {
    low[l] = b.low;
    high[l] = b.high;
    at_low[l] = b.at_low;
    at_high[l] = b.at_high;
    width[l] = b.width;
  }
  bool any_too_high() const {
    return std::any_of(at_low, at_low + kPutLanes, [](double f) { return !(f < 0); });
  }
};

// Lowers the brackets of the lanes that have none yet.
void lower(const PutBlock& b, const QdLanes& qd, BracketLanes& brackets) {
  for (int l = 0; l < kPutLanes; ++l) {
    const Bracket old = brackets.at(l);
    const Bracket next = formula::lowered<HostMath>(terms_of(b, l), qd.at(l), old);
    const bool too_high = formula::too_high(old);
    brackets.set(l, {too_high ? next.low : old.low, too_high ? next.high : old.high,
                     too_high ? next.at_low : old.at_low, 0, too_high ? next.width : old.width});
  }
}

template <bool kBisect>
void narrow(const PutBlock& b, const QdLanes& qd, BracketLanes& brackets) {
  for (int l = 0; l < kPutLanes; ++l)
    brackets.set(l, formula::narrowed<HostMath>(terms_of(b, l), qd.at(l), kBisect, brackets.at(l)));
}

// formula::start_level() of all lanes.
void start_levels(const PutBlock& b, double node, const double* above, double* level) {
  QdLanes qd;
  BracketLanes brackets;
  for (int l = 0; l < kPutLanes; ++l) {
    const PutTerms o = terms_of(b, l);
    const QdTerms q = formula::qd_terms<HostMath>(o, b.root_t[l] * node);
    qd.set(l, q);
    brackets.set(l, formula::first_bracket<HostMath>(o, q, above[l]));
  }
  for (int i = 0; i < formula::kLowerings && brackets.any_too_high(); ++i) lower(b, qd, brackets);
  for (int l = 0; l < kPutLanes; ++l)
    brackets.at_high[l] = formula::qd_plus<HostMath>(terms_of(b, l), qd.at(l), brackets.high[l]);
  const BracketLanes wide = brackets;
  for (int i = 0; i < formula::kBisections; ++i) narrow<true>(b, qd, brackets);
  for (int i = formula::kBisections; i < formula::kNarrowings; ++i) narrow<false>(b, qd, brackets);
  for (int l = 0; l < kPutLanes; ++l) {
    const double zero = formula::crossing(brackets.at(l));
    const bool found = (wide.at_low[l] < 0) & (wide.at_high[l] > 0);
    level[l] = found ? zero : wide.high[l];
  }
}

// The weights of the integrals' points for each node.
void weigh_points(PutBlock& b, const formula::AmericanTables& tables) {
  for (int i = 0, row = 0; i < tables.nodes; ++i) {
    const double node = formula::node_share(tables, i);
    for (int j = 0; j < tables.points; ++j, ++row) {
      const double share = node * tables.cosine_of[j], weight = node * node * tables.weight[j];
      for (int l = 0; l < kPutLanes; ++l) {
        const double t = b.root_t[l] * b.root_t[l], left = t * (share * share);
        b.of_rate[row][l] = t * weight * b.rate[l] * fast::exp<HostMath>(b.rate[l] * left);
        b.of_yield[row][l] = t * weight * b.yield[l] * fast::exp<HostMath>(b.yield[l] * left);
      }
    }
  }
}

// The boundary's levels at `count` places, a multiple of four: matrix times squares.
void levels_at(const PutBlock& b, const double* matrix, int nodes, int count, LaneArray* out) {
  const hn::CappedTag<double, kPutLanes> d;
  for (int row = 0; row < count; row += 4, matrix += 4 * nodes)
    for (std::size_t l = 0; l < kPutLanes; l += hn::Lanes(d)) {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int k = 0; k < nodes; ++k) {
        const auto square = hn::Load(d, b.square[k] + l);
        s0 = hn::MulAdd(hn::Set(d, matrix[k]), square, s0);
        s1 = hn::MulAdd(hn::Set(d, matrix[nodes + k]), square, s1);
        s2 = hn::MulAdd(hn::Set(d, matrix[2 * nodes + k]), square, s2);
        s3 = hn::MulAdd(hn::Set(d, matrix[3 * nodes + k]), square, s3);
      }
      const auto store = [&](auto square, int place) HWY_ATTR {
        hn::Store(hn::Neg(hn::Sqrt(hn::Max(square, hn::Zero(d)))), d, out[place] + l);
      };
      store(s0, row);
      store(s1, row + 1);
      store(s2, row + 2);
      store(s3, row + 3);
    }
}

void square_levels(PutBlock& b, int nodes) {
  for (int i = 0; i < nodes; ++i)
    for (int l = 0; l < kPutLanes; ++l) b.square[i][l] = b.level[i][l] * b.level[i][l];
}

struct IntegralLanes {
  LaneArray drift, numerator, denominator;

  [[gnu::always_inline]] void set(int l, const formula::Integrals& sums) {
    numerator[l] = sums.numerator;
    denominator[l] = sums.denominator;
  }
};

// The integrals of formula::improved_level() at node i, given the boundary at their points. In
// place, so that the compiler sees that the sums are no part of the block.
template <bool kFormA>
[[gnu::always_inline]] inline void integrate(const PutBlock& b,
                                             const formula::AmericanTables& tables, int i,
                                             IntegralLanes& sums) {
  const double node = formula::node_share(tables, i);
  LaneArray deviation, inverse;
  for (int l = 0; l < kPutLanes; ++l) {
    deviation[l] = b.vol[l] * b.root_t[l] * node;
    inverse[l] = 1 / deviation[l];
    sums.drift[l] = (b.rate[l] - b.yield[l]) * (b.root_t[l] * b.root_t[l] * (node * node));
    const double away = b.level[i][l] + b.log_start[l] + sums.drift[l];
    formula::Integrals sum{};
    formula::add_point<HostMath>(kFormA, away * inverse[l], 0.5 * deviation[l], inverse[l], 1, 1,
                                 sum);
    sums.set(l, sum);
  }
  for (int j = 0; j < tables.points; ++j) {
    const int row = i * tables.points + j;
    const double sine = tables.sine[j], cosecant = 1 / sine;
    for (int l = 0; l < kPutLanes; ++l) {
      const double away = b.level[i][l] - b.at_points[row][l] + sums.drift[l] * (sine * sine);
      const double inverse_deviation = inverse[l] * cosecant;
      formula::Integrals sum{sums.numerator[l], sums.denominator[l]};
      formula::add_point<HostMath>(kFormA, away * inverse_deviation, 0.5 * sine * deviation[l],
                                   inverse_deviation, b.of_rate[row][l], b.of_yield[row][l], sum);
      sums.set(l, sum);
    }
  }
}

// The logarithm is right only where both integrals are far from the ends of a double's range.
template <bool kFormA>
void improve(PutBlock& b, const formula::AmericanTables& tables, int i) {
  IntegralLanes sums;
  integrate<kFormA>(b, tables, i, sums);
  for (int l = 0; l < kPutLanes; ++l) {
    const double up = sums.numerator[l], down = sums.denominator[l];
    const bool good = (up > 1e-150) & (up < 1e150) & (down > 1e-150) & (down < 1e150);
    b.out_of_range[l] = good ? b.out_of_range[l] : 1;
    b.next[i][l] = formula::possible_level(fast::log_ratio<HostMath>(up, down) - sums.drift[l] -
                                           b.log_start[l]);
  }
}

template <bool kFormA>
void find_boundaries(PutBlock& b, const formula::AmericanMatrix& matrix) {
  const formula::AmericanTables& tables = matrix.tables;
  const int n = tables.nodes;
  const LaneArray at_expiry{};
  for (int i = n - 1; i >= 0; --i)
    start_levels(b, formula::node_share(tables, i), i == n - 1 ? at_expiry : b.level[i + 1],
                 b.level[i]);
  weigh_points(b, tables);
  for (int k = 0; k < (kFormA ? 1 : 2) * tables.iterations; ++k) {
    square_levels(b, n);
    levels_at(b, matrix.of_points.data(), n, n * tables.points, b.at_points);
    for (int i = 0; i < n; ++i) improve<kFormA>(b, tables, i);
    for (int i = 0; i < n; ++i) std::copy_n(b.next[i], kPutLanes, b.level[i]);
  }
  square_levels(b, n);
  levels_at(b, matrix.of_final_points.data(), n, tables.final_points, b.at_points);
}

// The values of all lanes' puts.
void price_puts(PutBlock& b, const formula::AmericanMatrix& matrix, bool form_a) {
  form_a ? find_boundaries<true>(b, matrix) : find_boundaries<false>(b, matrix);
  const formula::AmericanTables& tables = matrix.tables;
  LaneArray sum{}, share;
  for (int l = 0; l < kPutLanes; ++l) share[l] = b.spot[l] / b.strike[l];
  for (int j = 0; j < tables.final_points; ++j) {
    const double sine = tables.final_sine[j], weight = tables.final_weight[j];
    for (int l = 0; l < kPutLanes; ++l)
      sum[l] +=
          weight * formula::exercise_gain<HostMath>(
                       terms_of(b, l), share[l],
                       b.log_price[l] - b.log_start[l] - b.at_points[j][l], b.root_t[l] * sine);
  }
  for (int l = 0; l < kPutLanes; ++l) {
    const double european = formula::price<HostMath, double>(b.spot[l], b.strike[l], b.t[l],
                                                             b.rate[l], b.yield[l], b.vol[l])
                                .put;
    const double value = european + b.strike[l] * b.t[l] * sum[l],
                 now = formula::intrinsic(b.spot[l], b.strike[l]);
    const bool hold = (b.log_price[l] > b.log_start[l] + b.level[0][l]) & (value > now);
    b.value[l] = hold ? value : now;
  }
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace {

using formula::AmericanMatrix;
using formula::AmericanTables;
using formula::kPutLanes;
using formula::Put;
using formula::PutBlock;

HWY_EXPORT(price_puts);

Put put_at(const compute::Call& call, bool is_call, std::size_t i) {
  const auto at = [&](std::size_t column) {
    return call.input<double>(column)[call.in[column].item_bytes != 0 ? i : 0];
  };
  const Put p{at(0), at(1), at(2), at(3), at(4), at(5)};
  return is_call ? Put{p.strike, p.spot, p.t, p.yield, p.rate, p.vol} : p;
}

// Puts of one form (A or B) that wait for a block to be full.
class Queue {
 public:
  Queue(const AmericanMatrix& matrix, bool form_a, PutBlock& block, double* out)
      : matrix_(matrix), form_a_(form_a), block_(block), out_(out) {}

  void add(const Put& put, std::size_t place) {
    puts_[count_] = put;
    places_[count_++] = place;
    if (count_ == kPutLanes) flush();
  }

  void flush() {
    if (count_ == 0) return;
    for (int l = 0; l < kPutLanes; ++l) block_.set(l, puts_[l < count_ ? l : 0]);
    throw_if_cancelled();
    HWY_DYNAMIC_DISPATCH(price_puts)(block_, matrix_, form_a_);
    for (int l = 0; l < count_; ++l) {
      if (block_.out_of_range[l] != 0) throw_if_cancelled();  // one by one is slow
      out_[places_[l]] = block_.out_of_range[l] == 0
                             ? block_.value[l]
                             : formula::american_put<fast::HostMath>(puts_[l], matrix_.tables);
    }
    count_ = 0;
  }

 private:
  const AmericanMatrix& matrix_;
  const bool form_a_;
  PutBlock& block_;
  double* const out_;
  Put puts_[kPutLanes];
  std::size_t places_[kPutLanes];
  int count_ = 0;
};

}  // namespace

void american_cpu(const compute::Call& call, compute::Workers& workers) {
  const auto& tables = *call.input<AmericanTables>(6);
  const AmericanMatrix matrix(tables);
  double* const out = call.output<double>(0);
  // Long enough that few blocks are partly empty, short enough for all threads to have some.
  constexpr std::size_t kLanes = kPutLanes;
  const std::size_t blocks =
      call.items / (4 * kLanes * static_cast<std::size_t>(workers.threads()));
  const std::size_t grain = kLanes * std::clamp<std::size_t>(blocks, 1, 16);
  workers.each(call.items, grain, [&](std::size_t begin, std::size_t end) {
    const auto block = std::make_unique_for_overwrite<PutBlock>();
    Queue form_a(matrix, true, *block, out), form_b(matrix, false, *block, out);
    for (std::size_t i = begin; i < end; ++i) {
      const Put put = put_at(call, tables.call != 0, i);
      if (!formula::has_boundary(put))
        out[i] = formula::american_put<fast::HostMath>(put, tables);
      else
        (formula::takes_form_a(put.rate, put.vol) ? form_a : form_b).add(put, i);
    }
    form_a.flush();
    form_b.flush();
  });
}

}  // namespace sluice::market
#endif  // HWY_ONCE
