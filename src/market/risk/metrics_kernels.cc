// Limit: some 20 vector instructions and a division for 4 bars, in two passes over a block
// that lies in the first cache: about 3 cycles a bar with AVX2, near the memory's speed
// when all cores read.
#include "market/risk/metrics_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/risk/metrics_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::market::metrics_simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kRiskLanes>;
using V = hn::Vec<D>;
constexpr std::size_t kN = hn::MaxLanes(D());
constexpr std::size_t kParts = kRiskLanes / kN;  // vectors that hold all four lanes

// The block's returns: bars beyond the end are missing.
void load_block(const double* values, std::size_t bars, bool prices, std::size_t first,
                double* HWY_RESTRICT out) {
  const std::size_t n = std::min(kRiskBlock, bars - first);
  std::size_t i = 0;
  if (prices) {
    if (first == 0) out[i++] = std::numeric_limits<double>::quiet_NaN();
    for (; i < n; ++i) out[i] = values[first + i] / values[first + i - 1] - 1;
  } else {
    std::copy_n(values + first, n, out);
  }
  std::fill(out + n, out + kRiskBlock, std::numeric_limits<double>::quiet_NaN());
}

// Chunks side by side, so that a vector holds one bar of each; their sum, which is NaN
// when one is missing.
HWY_INLINE double interleave(const double* HWY_RESTRICT in, double* HWY_RESTRICT rows) {
  const D d;
  V sum = hn::Zero(d), more = sum;
  for (std::size_t k = 0; k < kRiskChunk; k += kN) {
    const V a = hn::LoadU(d, in + k), b = hn::LoadU(d, in + kRiskChunk + k);
    const V c = hn::LoadU(d, in + 2 * kRiskChunk + k), e = hn::LoadU(d, in + 3 * kRiskChunk + k);
    sum = hn::Add(sum, hn::Add(a, b));
    more = hn::Add(more, hn::Add(c, e));
    hn::StoreInterleaved4(a, b, c, e, d, rows + k * kRiskLanes);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, more)));
}

// Count and sum without missing values.
HWY_INLINE void count_rows(const double* HWY_RESTRICT rows, double& count, double& sum) {
  const D d;
  V n = hn::Zero(d), s = n;
  for (std::size_t k = 0; k < kRiskBlock; k += kN) {
    const V x = hn::Load(d, rows + k);
    const auto there = hn::Eq(x, x);
    n = hn::Add(n, hn::IfThenElseZero(there, hn::Set(d, 1.0)));
    s = hn::Add(s, hn::IfThenElseZero(there, x));
  }
  count = hn::GetLane(hn::SumOfLanes(d, n));
  sum = hn::GetLane(hn::SumOfLanes(d, s));
}

struct Part {  // of the sums over a block, one vector of chunks
  V m2, m3, m4, below, end, high, low, depth;
};

struct Ratio {
  V of, over;
};

// One bar of each chunk of a part; returns the wealth and the highest so far.
template <bool kMissing>
HWY_INLINE Ratio add_bar(V x, V mean, V required, Part& p) {
  const D d;
  V from_mean = hn::Sub(x, mean), under = hn::Min(hn::Sub(x, required), hn::Zero(d));
  if constexpr (kMissing) {
    const auto there = hn::Eq(x, x);
    from_mean = hn::IfThenElseZero(there, from_mean);
    under = hn::IfThenElseZero(there, under);
    x = hn::IfThenElseZero(there, x);
  }
  const V square = hn::Mul(from_mean, from_mean);
  p.m2 = hn::Add(p.m2, square);
  p.m3 = hn::MulAdd(square, from_mean, p.m3);
  p.m4 = hn::MulAdd(square, square, p.m4);
  p.below = hn::MulAdd(under, under, p.below);
  p.end = hn::Mul(p.end, hn::Add(x, hn::Set(d, 1.0)));
  p.high = hn::Max(p.high, p.end);
  p.low = hn::Min(p.low, p.end);
  return {p.end, p.high};
}

HWY_INLINE Ratio smaller(const Ratio& a, const Ratio& b) {
  const auto first = hn::Lt(hn::Mul(a.of, b.over), hn::Mul(b.of, a.over));
  return {hn::IfThenElse(first, a.of, b.of), hn::IfThenElse(first, a.over, b.over)};
}

HWY_INLINE void store_part(const Part& p, std::size_t part, RiskBlock& out) {
  const D d;
  double lanes[4][kN];
  hn::StoreU(p.end, d, lanes[0]);
  hn::StoreU(p.high, d, lanes[1]);
  hn::StoreU(p.low, d, lanes[2]);
  hn::StoreU(p.depth, d, lanes[3]);
  for (std::size_t j = 0; j < kN; ++j)
    out.path[part * kN + j] = {lanes[0][j], lanes[1][j], lanes[2][j], lanes[3][j]};
  out.moments.m2 += hn::GetLane(hn::SumOfLanes(d, p.m2));
  out.moments.m3 += hn::GetLane(hn::SumOfLanes(d, p.m3));
  out.moments.m4 += hn::GetLane(hn::SumOfLanes(d, p.m4));
  out.below += hn::GetLane(hn::SumOfLanes(d, p.below));
}

template <bool kMissing>
HWY_INLINE void sum_rows(const double* HWY_RESTRICT rows, double required, RiskBlock& out) {
  const D d;
  const V mean = hn::Set(d, out.moments.mean), need = hn::Set(d, required);
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0);
  for (std::size_t part = 0; part < kParts; ++part) {
    Part p{zero, zero, zero, zero, one, one, one, one};
    const double* row = rows + part * kN;
    for (std::size_t k = 0; k < kRiskChunk; k += 4, row += 4 * kRiskLanes) {
      const Ratio a = add_bar<kMissing>(hn::Load(d, row), mean, need, p);
      const Ratio b = add_bar<kMissing>(hn::Load(d, row + kRiskLanes), mean, need, p);
      const Ratio c = add_bar<kMissing>(hn::Load(d, row + 2 * kRiskLanes), mean, need, p);
      const Ratio e = add_bar<kMissing>(hn::Load(d, row + 3 * kRiskLanes), mean, need, p);
      const Ratio deepest = smaller(smaller(a, b), smaller(c, e));  // one division for four bars
      p.depth = hn::Min(p.depth, hn::Div(deepest.of, deepest.over));
    }
    store_part(p, part, out);
  }
}

// Pairs where neither is missing, about their means.
HWY_INLINE formula::CoMoments sum_pairs(const double* HWY_RESTRICT x,
                                        const double* HWY_RESTRICT y) {
  const D d;
  V n = hn::Zero(d), sx = n, sy = n, xy = n, yy = n;
  const V one = hn::Set(d, 1.0);
  for (std::size_t k = 0; k < kRiskBlock; k += kN) {
    const V a = hn::LoadU(d, x + k), b = hn::LoadU(d, y + k);
    const auto there = hn::And(hn::Eq(a, a), hn::Eq(b, b));
    n = hn::Add(n, hn::IfThenElseZero(there, one));
    sx = hn::Add(sx, hn::IfThenElseZero(there, a));
    sy = hn::Add(sy, hn::IfThenElseZero(there, b));
  }
  formula::CoMoments c;
  c.n = hn::GetLane(hn::SumOfLanes(d, n));
  if (c.n == 0) return c;
  c.mean_x = hn::GetLane(hn::SumOfLanes(d, sx)) / c.n;
  c.mean_y = hn::GetLane(hn::SumOfLanes(d, sy)) / c.n;
  const V mx = hn::Set(d, c.mean_x), my = hn::Set(d, c.mean_y);
  for (std::size_t k = 0; k < kRiskBlock; k += kN) {
    const V a = hn::LoadU(d, x + k), b = hn::LoadU(d, y + k);
    const auto there = hn::And(hn::Eq(a, a), hn::Eq(b, b));
    const V dx = hn::IfThenElseZero(there, hn::Sub(a, mx));
    const V dy = hn::IfThenElseZero(there, hn::Sub(b, my));
    xy = hn::MulAdd(dx, dy, xy);
    yy = hn::MulAdd(dy, dy, yy);
  }
  c.xy = hn::GetLane(hn::SumOfLanes(d, xy));
  c.yy = hn::GetLane(hn::SumOfLanes(d, yy));
  return c;
}

void scan(const RiskSeries& s, std::size_t begin, std::size_t end, RiskBlock* out) {
  HWY_ALIGN double rows[kRiskBlock];
  HWY_ALIGN double copy[kRiskBlock];
  HWY_ALIGN double other[kRiskBlock];
  for (std::size_t b = begin; b < end; ++b) {
    const std::size_t first = b * kRiskBlock;
    const double* x = s.values + first;
    if (s.prices || first + kRiskBlock > s.bars) {
      load_block(s.values, s.bars, s.prices, first, copy);
      x = copy;
    }
    RiskBlock block;
    double sum = interleave(x, rows);
    block.moments.n = static_cast<double>(kRiskBlock);
    const bool missing = std::isnan(sum);
    if (missing) count_rows(rows, block.moments.n, sum);
    if (block.moments.n > 0) block.moments.mean = sum / block.moments.n;
    missing ? sum_rows<true>(rows, s.required_return, block)
            : sum_rows<false>(rows, s.required_return, block);
    if (s.benchmark != nullptr) {
      load_block(s.benchmark, s.bars, s.prices, first, other);
      block.with = sum_pairs(x, other);
    }
    out[b - begin] = block;
  }
}

}  // namespace sluice::market::metrics_simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace metrics_simd {
namespace {
HWY_EXPORT(scan);
}
}  // namespace metrics_simd

void scan_blocks(const RiskSeries& series, std::size_t begin, std::size_t end, RiskBlock* out) {
  using namespace metrics_simd;
  HWY_DYNAMIC_DISPATCH(scan)(series, begin, end, out);
}

}  // namespace sluice::market
#endif
