// The kernel others would write for the same Asian simulation: cuRAND's Philox, its normals
// four at a time, a path per thread, fast instructions. For benchmarks to compare with.
#pragma once

#include <curand_kernel.h>

namespace sluice::market {

inline constexpr unsigned kPeerThreads = 256;

__global__ void __launch_bounds__(kPeerThreads)
    curand_asian(unsigned long long seed, int fixings, float drift, float vol, float* means) {
  const unsigned path = blockIdx.x * kPeerThreads + threadIdx.x;
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
  means[path] = sum / fixings;
}

}  // namespace sluice::market
