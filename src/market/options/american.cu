#include "compute/launch_context.h"
#include "device/cuda/launch.cuh"
#include "market/gpu/gpu_operations.h"
#include "market/math/fast_math.cuh"
#include "market/options/american_formula.h"
#include "market/options/columns.cuh"

namespace sluice::market {
namespace {

constexpr unsigned kThreads = 128;

// A thread per option. Limit: arithmetic; the fixed point evaluates two normal
// distributions, two exponentials and a series at nodes x iterations x points places, about
// 170 double-precision instructions each: at 16.75e12/s 540 M options/s (fast), 43 M/s
// (standard), 5 M/s (fine).
__global__ void __launch_bounds__(kThreads)
    americans(DeviceOptions<double> in, const formula::AmericanTables* given, double* out,
              std::size_t n) {
  __shared__ formula::AmericanTables tables;
  const auto* from = reinterpret_cast<const double*>(given);
  auto* to = reinterpret_cast<double*>(&tables);
  for (unsigned i = threadIdx.x; i < sizeof tables / sizeof(double); i += kThreads) to[i] = from[i];
  __syncthreads();
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const bool call = tables.call != 0;
  const formula::Put put{
      call ? in.strike[i] : in.spot[i],    call ? in.spot[i] : in.strike[i],    in.t[i],
      call ? in.div_yield[i] : in.rate[i], call ? in.rate[i] : in.div_yield[i], in.vol[i]};
  out[i] = formula::american_put<fast::DeviceMath>(put, tables);
}

}  // namespace

void american_gpu(const compute::Call& call, compute::LaunchContext& context) {
  if (call.items == 0) return;
  static_assert(sizeof(formula::AmericanTables) % sizeof(double) == 0);
  const device::Grid grid{dim3(static_cast<unsigned>((call.items + kThreads - 1) / kThreads)),
                          dim3(kThreads)};
  device::launch(context.stream(), grid, americans, device_options<double>(call),
                 call.input<formula::AmericanTables>(6), call.output<double>(0), call.items);
}

}  // namespace sluice::market
