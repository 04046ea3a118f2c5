#include "device/launch.cuh"
#include "market/montecarlo/asian.h"
#include "market/montecarlo/block_sums.cuh"
#include "market/montecarlo/gpu_kernels.h"
#include "market/montecarlo/philox.h"

namespace sluice::market {
namespace {

constexpr int kThreads = 256;
constexpr int kSamplesPerThread = static_cast<int>(kAsianBlock) / kThreads;

__device__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float fast_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float fast_sqrt(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The words of normals::box_muller by the GPU's own instructions. `vol` scales both.
__device__ float2 scaled_normals(unsigned radius_word, unsigned angle_word, float vol) {
  const float u = __fmaf_rn(__int2float_rn(static_cast<int>(radius_word >> 1)), 0x1p-31f, 0x1p-32f);
  const float r = vol * fast_sqrt(fabsf(fast_log2(u) * -1.3862943611f));
  const float angle = __int2float_rn(static_cast<int>(angle_word)) * (3.14159265f * 0x1p-31f);
  return {r * __cosf(angle), r * __sinf(angle)};
}

// g is the random part of log2(S / spot) of a path; its mirror image has -g.
struct Path {
  float g = 0, g_sum = 0, up = 0, down = 0, growth;
};

template <bool kMirror>
__device__ void advance(Path& p, float increment, float factor) {
  p.g += increment;
  p.g_sum += p.g;
  p.up = __fmaf_rn(p.growth, fast_exp2(p.g), p.up);
  if (kMirror) p.down = __fmaf_rn(p.growth, fast_exp2(-p.g), p.down);
  p.growth *= factor;
}

template <bool kMirror>
__device__ Path simulate(const AsianPlan& plan, philox::Key key, std::uint64_t path, float factor) {
  Path p;
  p.growth = fast_exp2(plan.first_drift);
  const int fixings = plan.fixings;
  for (int k = 0; k < fixings; k += 4) {
    const auto w = philox::random(philox::counter(path, static_cast<unsigned>(k / 4)), key);
    float2 a = scaled_normals(w.x0, w.x1, plan.vol);
    const float2 b = scaled_normals(w.x2, w.x3, plan.vol);
    if (k == 0) a.x *= plan.vol > 0 ? plan.first_vol / plan.vol : 0.0f;
    advance<kMirror>(p, a.x, factor);
    if (k + 3 < fixings) {
      advance<kMirror>(p, a.y, factor);
      advance<kMirror>(p, b.x, factor);
      advance<kMirror>(p, b.y, factor);
    } else {
      if (k + 1 < fixings) advance<kMirror>(p, a.y, factor);
      if (k + 2 < fixings) advance<kMirror>(p, b.x, factor);
    }
  }
  return p;
}

__device__ double payoff(const AsianPlan& plan, double mean) {
  return fmax(static_cast<double>(plan.w) * (plan.spot * mean - plan.strike), 0.0);
}

template <bool kMirror>
__device__ void add_sample(const AsianPlan& plan, const Path& p, BlockSums& sums) {
  const double n = plan.fixings;
  const double drift = n * plan.first_drift + 0.5 * n * (n - 1) * plan.drift;
  double x = payoff(plan, p.up / n), c = payoff(plan, exp2((drift + p.g_sum) / n));
  if (kMirror) {
    x = 0.5 * (x + payoff(plan, p.down / n));
    c = 0.5 * (c + payoff(plan, exp2((drift - p.g_sum) / n)));
  }
  add(sums, x, c);
}

// One thread block per block of samples. Limit: with mirrored paths about 11.5
// instructions a path-step (Philox 4.5, Box-Muller 3.25, two exponentials and sums), 2.9e12
// path-steps/s at 33.5e12 instructions/s; 2 of them special functions, 2.1e12 at 4.18e12/s.
template <bool kMirror>
__global__ void __launch_bounds__(kThreads)
    asian_blocks(AsianPlan plan, std::uint64_t first_block, BlockSums* out) {
  const auto key = philox::key_of(plan.seed);
  const float factor = fast_exp2(plan.drift);
  const std::uint64_t first = (first_block + blockIdx.x) * kAsianBlock + threadIdx.x;
  BlockSums sums;
  for (int i = 0; i < kSamplesPerThread; ++i)
    add_sample<kMirror>(plan, simulate<kMirror>(plan, key, first + i * kThreads, factor), sums);
  reduce<kThreads>(sums, out + blockIdx.x);
}

}  // namespace

void asian_gpu(const compute::Call& call, compute::Lane& lane) {
  if (call.items == 0) return;
  const auto& plan = call.with<AsianPlan>();
  const device::Grid grid{dim3(static_cast<unsigned>(call.items)), dim3(kThreads)};
  device::launch(lane.stream(), grid,
                 plan.antithetic != 0 ? asian_blocks<true> : asian_blocks<false>, plan,
                 std::uint64_t{call.first}, call.output<BlockSums>(0));
}

}  // namespace sluice::market
