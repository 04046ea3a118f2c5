// Eight or sixteen paths side by side. Random words come from Philox in vectors of 64-bit
// lanes, where one multiplication gives both halves of a product; the rest is loops over
// paths that the compiler makes vectors of. Everything stays in the L1 cache.
// About 5 instructions a path-step with antithetic paths and 8 lanes.
#include "market/montecarlo/asian_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/montecarlo/asian_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "base/cancellation.h"
#include "market/math/normals.h"
#include "market/math/philox.h"
#include "market/montecarlo/asian.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kPaths = 256;  // side by side; divides kAsianBlock
constexpr int kStepsPerLook = 64;    // steps between two checks for cancellation

struct Group {
  alignas(64) std::uint32_t words[4][kPaths];
  alignas(64) float normals[4][kPaths];
  alignas(64) float g[kPaths], g_sum[kPaths], up[kPaths], down[kPaths];
};

#if HWY_TARGET == HWY_SCALAR

void random_words(std::uint64_t seed, std::uint64_t first, std::uint32_t step, Group& group) {
  for (std::size_t i = 0; i < kPaths; ++i) {
    const auto w = philox::random(philox::counter(first + i, step), philox::key_of(seed));
    group.words[0][i] = w.x0;
    group.words[1][i] = w.x1;
    group.words[2][i] = w.x2;
    group.words[3][i] = w.x3;
  }
}

#else

// State of as many counters as there are 64-bit lanes; the upper half of a lane is not
// used, and what is in it never reaches the lower half.
template <class D, class V>
HWY_ATTR inline void philox_rounds(D d32, V& x0, V& x1, V& x2, V& x3, philox::Key key) {
  const hn::Repartition<std::uint64_t, D> d64;
  const auto m0 = hn::Set(d32, philox::kMultiply0), m1 = hn::Set(d32, philox::kMultiply1);
  for (int i = 0; i < philox::kRounds; ++i) {
    const auto p0 = hn::MulEven(x0, m0), p1 = hn::MulEven(x2, m1);
    const auto h0 = hn::BitCast(d32, hn::ShiftRight<32>(p0));
    const auto h1 = hn::BitCast(d32, hn::ShiftRight<32>(p1));
    x0 = hn::Xor(hn::Xor(h1, x1), hn::BitCast(d32, hn::Set(d64, key.k0)));
    x2 = hn::Xor(hn::Xor(h0, x3), hn::BitCast(d32, hn::Set(d64, key.k1)));
    x1 = hn::BitCast(d32, p1);
    x3 = hn::BitCast(d32, p0);
    key = {key.k0 + philox::kWeyl0, key.k1 + philox::kWeyl1};
  }
}

// words[w][i]: word w of path first + i. `first` is a multiple of kPaths, so that the upper
// half of the path number is the same for all.
HWY_ATTR void random_words(std::uint64_t seed, std::uint64_t first, std::uint32_t step,
                           Group& group) {
  const hn::ScalableTag<std::uint32_t> d32;
  using D64 = hn::Repartition<std::uint64_t, decltype(d32)>;
  const D64 d64;
  const auto key = philox::key_of(seed);
  const std::size_t lanes = hn::Lanes(d32);
  const auto twice = hn::Add(hn::Iota(d64, 0), hn::Iota(d64, 0));
  for (std::size_t i = 0; i < kPaths; i += lanes) {
    const auto low = hn::Set(d64, static_cast<std::uint32_t>(first) + i);
    auto a0 = hn::BitCast(d32, hn::Add(low, twice));  // paths of even number
    auto b0 = hn::BitCast(d32, hn::Add(hn::Add(low, twice), hn::Set(d64, 1)));
    auto a1 = hn::BitCast(d32, hn::Set(d64, first >> 32)), b1 = a1;
    auto a2 = hn::BitCast(d32, hn::Set(d64, step)), b2 = a2;
    auto a3 = hn::Zero(d32), b3 = a3;
    philox_rounds(d32, a0, a1, a2, a3, key);
    philox_rounds(d32, b0, b1, b2, b3, key);
    const auto merge = [&](auto even, auto odd) HWY_ATTR {
      const auto moved = hn::BitCast(d32, hn::ShiftLeft<32>(hn::BitCast(d64, odd)));
      return hn::OddEven(moved, even);
    };
    hn::Store(merge(a0, b0), d32, group.words[0] + i);
    hn::Store(merge(a1, b1), d32, group.words[1] + i);
    hn::Store(merge(a2, b2), d32, group.words[2] + i);
    hn::Store(merge(a3, b3), d32, group.words[3] + i);
  }
}

#endif  // HWY_SCALAR

void make_normals(Group& group) {
  for (int pair = 0; pair < 4; pair += 2)
    for (std::size_t i = 0; i < kPaths; ++i) {
      const auto z = normals::box_muller(group.words[pair][i], group.words[pair + 1][i]);
      group.normals[pair][i] = z.first;
      group.normals[pair + 1][i] = z.second;
    }
}

// g is the random part of log2(S / spot); `growth` the rest, as a factor.
template <bool kMirror>
void advance(Group& group, const float* z, float vol, float growth) {
  for (std::size_t i = 0; i < kPaths; ++i) {
    const float g = std::fma(vol, z[i], group.g[i]);
    const float up = normals::exp2(g);
    group.g[i] = g;
    group.g_sum[i] += g;
    group.up[i] = std::fma(growth, up, group.up[i]);
    if (kMirror) group.down[i] += growth / up;
  }
}

void add_payoffs(const AsianPlan& plan, const Group& group, double drift_sum, BlockSums& sums) {
  const double n = plan.fixings, w = plan.w, spot = plan.spot, strike = plan.strike;
  const auto payoff = [&](double mean) { return std::max(w * (spot * mean - strike), 0.0); };
  for (std::size_t i = 0; i < kPaths; ++i) {
    double x = payoff(group.up[i] / n);
    double c = payoff(std::exp2((drift_sum + group.g_sum[i]) / n));
    if (plan.antithetic != 0) {
      x = 0.5 * (x + payoff(group.down[i] / n));
      c = 0.5 * (c + payoff(std::exp2((drift_sum - group.g_sum[i]) / n)));
    }
    sums.x += x;
    sums.xx += x * x;
    sums.c += c;
    sums.cc += c * c;
    sums.xc += x * c;
  }
  sums.count += kPaths;
}

void asian_block(const AsianPlan& plan, std::uint64_t first, BlockSums& sums) {
  Group group;
  for (std::size_t at = 0; at < kAsianBlock; at += kPaths) {
    for (auto* column : {group.g, group.g_sum, group.up, group.down})
      std::fill_n(column, kPaths, 0.0f);
    double drift = plan.first_drift, drift_sum = 0;
    for (int k = 0; k < plan.fixings; ++k) {
      if (k % kStepsPerLook == 0) throw_if_cancelled();
      if (k % 4 == 0) {
        random_words(plan.seed, first + at, static_cast<std::uint32_t>(k / 4), group);
        make_normals(group);
      }
      const auto step = plan.antithetic != 0 ? advance<true> : advance<false>;
      step(group, group.normals[k % 4], k == 0 ? plan.first_vol : plan.vol,
           static_cast<float>(std::exp2(drift)));
      drift_sum += drift;
      drift += plan.drift;
    }
    add_payoffs(plan, group, drift_sum, sums);
  }
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(asian_block);

void asian_cpu(const compute::Call& call, compute::Workers& workers) {
  const auto& plan = call.with<AsianPlan>();
  auto* out = call.output<BlockSums>(0);
  workers.each(call.items, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      BlockSums sums;
      HWY_DYNAMIC_DISPATCH(asian_block)(plan, (call.first + i) * kAsianBlock, sums);
      out[i] = sums;
    }
  });
}

}  // namespace sluice::market
#endif  // HWY_ONCE
