#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/gpu/gpu_operations.h"
#include "market/math/fast_math.cuh"
#include "market/montecarlo/block_sums.cuh"
#include "market/montecarlo/paths_formula.h"

namespace sluice::market {
namespace {

constexpr int kThreads = 128;
constexpr int kEach = static_cast<int>(formula::kPathBlock) / kThreads;

// One thread block per block of samples; the plan is read by all and stays in the L1
// cache. Limit: arithmetic in double precision, about 150 instructions a step and asset
// (logarithm, root, sine and cosine are the library's): 1e11 path-steps/s.
__global__ void __launch_bounds__(kThreads)
    path_blocks(const formula::PathPlan* plan, const formula::QuasiTables* quasi,
                std::uint64_t first_block, BlockSums* out) {
  const std::uint64_t first = (first_block + blockIdx.x) * formula::kPathBlock + threadIdx.x;
  BlockSums sums;
  for (int i = 0; i < kEach; ++i) {
    const auto sample = formula::one_sample<fast::DeviceMath>(
        *plan, quasi, first + static_cast<unsigned>(i * kThreads));
    add(sums, sample.x, sample.c);
  }
  reduce<kThreads>(sums, out + blockIdx.x);
}

}  // namespace

void paths_gpu(const compute::Call& call, compute::LaunchContext& context) {
  if (call.items == 0) return;
  const device::Grid grid{dim3(static_cast<unsigned>(call.items)), dim3(kThreads)};
  device::launch(context.stream(), grid, path_blocks, call.input<formula::PathPlan>(0),
                 call.in.size() > 1 ? call.input<formula::QuasiTables>(1) : nullptr,
                 std::uint64_t{call.first}, call.output<BlockSums>(0));
}

}  // namespace sluice::market
