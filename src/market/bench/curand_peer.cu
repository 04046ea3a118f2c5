#include <curand_kernel.h>

#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/bench/curand_peer.h"
#include "market/gpu/gpu_operations.h"
#include "market/montecarlo/asian.h"

namespace sluice::market {
namespace {

constexpr unsigned kThreads = kCurandPaths;

// Draws four normals at a time, uses fast instructions and stores the mean price of each path.
__global__ void __launch_bounds__(kThreads)
    curand_asian(unsigned long long seed, int fixings, float drift, float vol, float* means) {
  const unsigned path = blockIdx.x * kThreads + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, path, 0, &state);
  float log_price = 0, sum = 0;
  for (int k = 0; k < fixings; k += 4) {
    const float4 z = curand_normal4(&state);
    const float all[4] = {z.x, z.y, z.z, z.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (k + j >= fixings) break;
      log_price += drift + vol * all[j];
      sum += __expf(log_price);
    }
  }
  means[path] = sum / static_cast<float>(fixings);
}

}  // namespace

void curand_asian_gpu(const compute::Call& call, compute::LaunchContext& context) {
  constexpr float kLn2 = 0.69314718f;  // the plan counts in powers of two
  const auto& plan = call.with<AsianPlan>();
  device::launch(context.stream(), {dim3(static_cast<unsigned>(call.items)), dim3(kThreads)},
                 curand_asian, static_cast<unsigned long long>(plan.seed), plan.fixings,
                 plan.drift * kLn2, plan.vol * kLn2, call.output<float>(0));
}

}  // namespace sluice::market
