#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/gpu/gpu_operations.h"
#include "market/options/binomial_kernels.h"
#include "market/options/binomial_plan.h"
#include "market/options/columns.cuh"

namespace sluice::market {
namespace {

using formula::Strip;
using formula::strip_of;
using formula::TreePlan;

constexpr int kWarps = 4;  // a block; each takes one option
constexpr unsigned kAll = 0xffffffff;

__device__ TreePlan plan_of(const DeviceOptions<double>& in, TreeParameters tree, std::size_t i) {
  return formula::tree_plan(
      tree.call != 0, tree.american != 0, tree.steps,
      {in.spot[i], in.strike[i], in.t[i], in.rate[i], in.div_yield[i], in.vol[i]});
}

__device__ double exercise_value(const TreePlan& p, int m) {
  return p.strike - p.spot * exp(m * p.log_up);
}

// Prices that need no tree; true when there was one.
__device__ bool without_tree(const TreePlan& p, double& price) {
  price = !p.valid ? NAN : p.at_once ? p.strike - p.spot : 0;
  return !p.valid || p.at_once || p.worthless + p.steps < 0;
}

template <bool kAmerican>
__device__ double node(const TreePlan& p, double above, double below, double exercise) {
  const double held = fma(p.up, above, p.down * below);
  return !kAmerican || held > exercise ? held : exercise;
}

// kEach nodes of the strip in the registers of every lane, with what exercising pays at
// both parities; neighbours by shuffle, once a step.
template <int kEach, bool kAmerican>
struct Registers {
  double v[kEach], even[kEach], odd[kEach];
  double under;  // lane 0: what exercising pays below the strip

  __device__ void fill(const TreePlan& p, int low, int lane) {
    const double up = exp(p.log_up);
    double price = p.spot * exp((low + 2 * lane * kEach) * p.log_up);
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      even[r] = p.strike - price;
      price *= up;
      odd[r] = p.strike - price;
      price *= up;
      v[r] = even[r] > 0 ? even[r] : 0.0;
    }
    under = exercise_value(p, low - 1);
  }
  __device__ void to_odd(const TreePlan& p, int lane) {
    const double first = __shfl_down_sync(kAll, v[0], 1);
    const double next = lane == 31 ? 0.0 : first;
#pragma unroll
    for (int r = 0; r < kEach; ++r)
      v[r] = node<kAmerican>(p, r + 1 < kEach ? v[r + 1 < kEach ? r + 1 : r] : next, v[r], odd[r]);
  }
  __device__ void to_even(const TreePlan& p, int lane) {
    const double last = __shfl_up_sync(kAll, v[kEach - 1], 1);
    const double before = lane == 0 ? under : last;
#pragma unroll
    for (int r = kEach - 1; r >= 0; --r)
      v[r] = node<kAmerican>(p, v[r], r > 0 ? v[r > 0 ? r - 1 : r] : before, even[r]);
  }
  __device__ void write(int k, int lane, double* to) const {
#pragma unroll
    for (int r = 0; r < kEach; ++r)
      if (lane * kEach + r == k) *to = v[r];
  }
};

// Options whose strip has (kLess, 32 kEach] nodes. Limit, near the money and 1,024 steps:
// some 290 nodes at each step, 3 double-precision instructions each: 18 M options/s at
// 16.75e12/s; 10.6 M/s for the full tree.
template <int kLess, int kEach, bool kAmerican>
__global__ void __launch_bounds__(kWarps * 32)
    trees(DeviceOptions<double> in, TreeParameters tree, double* out, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (i >= n) return;
  const TreePlan p = plan_of(in, tree, i);
  const int lane = static_cast<int>(threadIdx.x % 32);
  double price;
  if (without_tree(p, price)) {
    if (kLess == 0 && lane == 0) out[i] = price;
    return;
  }
  const Strip strip = strip_of(p);
  if (strip.count <= kLess || strip.count > 32 * kEach) return;
  Registers<kEach, kAmerican> nodes;
  nodes.fill(p, strip.low, lane);
  for (int left = p.steps; left > 1; left -= 2) {
    nodes.to_odd(p, lane);
    nodes.to_even(p, lane);
  }
  if (p.steps % 2 != 0) nodes.to_odd(p, lane);
  nodes.write((-strip.low - p.steps % 2) / 2, lane, out + i);
}

constexpr int kWideThreads = 256;

// Wider strips: a block per option, two rows of nodes in device memory. For trees of many
// steps; kWideBlocks rows are shared by all options.
template <bool kAmerican>
__global__ void __launch_bounds__(kWideThreads)
    wide_trees(int less, DeviceOptions<double> in, TreeParameters tree, double* rows,
               std::size_t row, double* out, std::size_t n) {
  double* v = rows + 2 * row * blockIdx.x;
  double* w = v + row;
  for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) {
    const TreePlan p = plan_of(in, tree, i);
    double price;
    if (without_tree(p, price)) continue;
    const Strip strip = strip_of(p);
    if (strip.count <= less) continue;
    const int thread = static_cast<int>(threadIdx.x);
    for (int k = thread; k <= strip.count; k += kWideThreads)
      v[k] = fmax(exercise_value(p, strip.low + 2 * k), 0.0);
    const double under = exercise_value(p, strip.low - 1);
    for (int step = p.steps - 1; step >= 0; --step) {
      __syncthreads();
      const int odd = (p.steps - step) % 2;
      for (int k = thread; k < strip.count; k += kWideThreads) {
        const double above = odd ? v[k + 1] : v[k];
        const double below = odd ? v[k] : k > 0 ? v[k - 1] : under;
        w[k] = node<kAmerican>(p, above, below,
                               kAmerican ? exercise_value(p, strip.low + 2 * k + odd) : 0);
      }
      if (thread == 0) w[strip.count] = 0;
      double* const done = v;
      v = w;
      w = done;
    }
    __syncthreads();
    if (thread == 0) out[i] = v[(-strip.low - p.steps % 2) / 2];
    __syncthreads();
  }
}

constexpr int kNarrow = 10, kMiddle = 18, kBroad = 34;  // nodes a lane
constexpr std::size_t kWideBlocks = 264;

template <bool kAmerican>
void price_trees(const compute::Call& call, compute::LaunchContext& context) {
  const auto tree = call.with<TreeParameters>();
  const auto in = device_options<double>(call);
  auto* out = call.output<double>(0);
  const std::size_t n = call.items;
  const device::Grid grid{dim3(static_cast<unsigned>((n + kWarps - 1) / kWarps)),
                          dim3(kWarps * 32)};
  device::launch(context.stream(), grid, trees<0, kNarrow, kAmerican>, in, tree, out, n);
  device::launch(context.stream(), grid, trees<32 * kNarrow, kMiddle, kAmerican>, in, tree, out, n);
  device::launch(context.stream(), grid, trees<32 * kMiddle, kBroad, kAmerican>, in, tree, out, n);
  if (tree.steps + 4 <= 32 * kBroad) return;  // no strip can be wider
  const std::size_t row = static_cast<std::size_t>(tree.steps) + 8;
  const std::size_t blocks = n < kWideBlocks ? n : kWideBlocks;
  double* rows = context.scratch<double>(2 * row * blocks);
  device::launch(context.stream(), {dim3(static_cast<unsigned>(blocks)), dim3(kWideThreads)},
                 wide_trees<kAmerican>, 32 * kBroad, in, tree, rows, row, out, n);
}

}  // namespace

void binomial_gpu(const compute::Call& call, compute::LaunchContext& context) {
  if (call.items == 0) return;
  call.with<TreeParameters>().american != 0 ? price_trees<true>(call, context)
                                            : price_trees<false>(call, context);
}

}  // namespace sluice::market
