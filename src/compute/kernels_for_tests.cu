#include "compute/kernels_for_tests.h"
#include "compute/launch_context.h"
#include "compute/workers.h"
#include "device/cuda/launch.cuh"

namespace sluice::compute {
namespace {

__global__ void plus_kernel(const double* in, double* out, std::size_t items, double addend) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < items) out[i] = in[i] + addend;
}

__global__ void wild_kernel() { *reinterpret_cast<volatile int*>(8) = 1; }

void plus_on_cpu(const Call& call, Workers& workers) {
  workers.each(call.items, 1024, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      call.output<double>(0)[i] = call.input<double>(0)[i] + call.with<PlusParameters>().addend;
  });
}

void plus_on_gpu(const Call& call, LaunchContext& context) {
  const auto blocks = static_cast<unsigned>((call.items + 255) / 256);
  device::launch(context.stream(), {blocks, 256}, plus_kernel, call.input<double>(0),
                 call.output<double>(0), call.items, call.with<PlusParameters>().addend);
}

void fault_on_gpu(const Call& call, LaunchContext& context) {
  device::launch(context.stream(), {1, 1}, wild_kernel);
  plus_on_gpu(call, context);
}

void greedy_on_gpu(const Call& call, LaunchContext& context) {
  (void)context.scratch<std::byte>(call.items << 20);
  plus_on_gpu(call, context);
}

}  // namespace

const Operation kPlusOnGpu{"test plus", plus_on_cpu, plus_on_gpu};
const Operation kFaultOnGpu{"test fault", plus_on_cpu, fault_on_gpu};
const Operation kGreedyOnGpu{"test greedy", plus_on_cpu, greedy_on_gpu};

}  // namespace sluice::compute
