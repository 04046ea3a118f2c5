// Launches the kernels of a call: how many blocks, segments of a block and tiles in shared memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "device/cuda/launch.cuh"
#include "market/indicators/cuda/indicator_kernel.cuh"

namespace sluice::market::on_gpu {

struct SmLimits {
  int processors, shared;  // multiprocessors, and bytes of shared memory of each
};

inline SmLimits sm_limits() {
  int device = 0;
  SmLimits limits{};
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&limits.processors, cudaDevAttrMultiProcessorCount, device));
  device::check(
      cudaDeviceGetAttribute(&limits.shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return limits;
}

// Launches the kernel of a plan's rule.
template <class T>
struct IndicatorLaunch {
  const compute::Call& call;
  compute::LaunchContext& context;
  KernelParams<T> params;
  SmLimits limits;

  template <class S>
  void run() {
    using Memory = BlockMemory<S, T>;
    std::size_t ring = static_cast<std::size_t>(params.plan.ring) * kWarp * sizeof(GpuValue);
    const bool ring_in_global =
        2 * Memory::bytes(kMinStages, ring) > static_cast<std::size_t>(limits.shared);
    if (ring_in_global) ring = 0;
    const auto fit = [&](int stages) {
      constexpr std::size_t kReserved = 1024 + sizeof(SegmentRows);  // of each block
      return limits.shared / static_cast<std::int64_t>(Memory::bytes(stages, ring) + kReserved);
    };
    const std::int64_t fitting = std::min<std::int64_t>(fit(kMinStages), kMaxBlocks);
    if (params.plan.align != 0)
      params.parts = parts_for(std::min<std::int64_t>(fitting, kMinBlocks));
    const std::int64_t each = distribute(std::min<std::int64_t>(fitting, kMinBlocks));
    const std::int64_t blocks =
        (params.series * params.parts + params.segments - 1) / params.segments;
    params.stages = kMaxStages;
    while (params.stages > kMinStages && fit(params.stages) < std::min(each, fitting))
      --params.stages;
    if (ring_in_global)
      params.ring =
          context.scratch<GpuValue>(static_cast<std::size_t>(params.plan.ring * blocks) * kWarp);
    auto kernel = run_segments<S, T, true>;
    if constexpr (S::kUsesRing)
      if (ring_in_global) kernel = run_segments<S, T, false>;
    start(kernel, blocks, Memory::bytes(params.stages, ring));
  }

  // Sets the segments of a block so that each multiprocessor has the same number of blocks, of
  // about as many segments. They share the memory bandwidth evenly, so one with more work would run
  // alone at the end. Returns the blocks of a multiprocessor.
  std::int64_t distribute(std::int64_t min_blocks) {
    const std::int64_t all = params.series * params.parts, processors = limits.processors;
    const std::int64_t full = kWarp * processors,
                       each = std::max((all + full - 1) / full, min_blocks);
    params.segments = static_cast<int>((all + each * processors - 1) / (each * processors));
    return each;
  }

  // Returns the segments of a series for rules whose segments give the same bits however they are
  // cut: as many as run at once.
  std::int64_t parts_for(std::int64_t fitting) const {
    constexpr std::int64_t kShortest = 512, kOverhead = 16;
    if (params.plan.halo == kEndless) return 1;
    const std::int64_t reach = params.plan.halo + params.plan.lookback + params.plan.align;
    const std::int64_t max_parts = params.bars / std::max(kOverhead * reach, kShortest);
    return std::max<std::int64_t>(
        std::min(fitting * limits.processors * kWarp / params.series, max_parts), 1);
  }

  void start(void (*kernel)(KernelParams<T>), std::int64_t blocks, std::size_t shared) {
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared)));
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared));
    device::launch(context.stream(),
                   {dim3(static_cast<unsigned>(blocks)), dim3(kWarpRoles * kWarp), shared}, kernel,
                   params);
  }
};

template <class T>
bool all_aligned(const compute::Call& call) {
  const auto wide = [](const compute::Operand& operand) {
    return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0;
  };
  return std::all_of(call.in.begin(), call.in.end(), wide) &&
         std::all_of(call.out.begin(), call.out.end(), wide);
}

template <class T>
void launch_indicator(const compute::Call& call, compute::LaunchContext& context) {
  constexpr std::int64_t kOverhead = 10;
  const auto& parameters = call.with<IndicatorParameters>();
  if (call.items == 0 || parameters.bars == 0) return;
  IndicatorLaunch<T> launch{call, context, {}, sm_limits()};
  KernelParams<T>& params = launch.params;
  params.plan = parameters.plan;
  params.bars = parameters.bars;
  params.series = static_cast<std::int64_t>(call.items);
  params.parts = segment_count(parameters.plan, parameters.bars, params.series, kOverhead);
  params.aligned = all_aligned<T>(call);
  if (parameters.bars / params.parts > 1 << 30)
    throw Error(Code::exhausted, "a series too long for one thread of a GPU");
  for (std::size_t k = 0; k < call.in.size(); ++k) params.in[k] = call.input<T>(k);
  for (std::size_t k = 0; k < call.out.size(); ++k) params.out[k] = call.output<T>(k);
  auto* const first_complete = context.scratch<std::int64_t>(call.items);
  params.first_complete = first_complete;
  const std::int64_t blocks = (params.series + kSeriesPerBlock - 1) / kSeriesPerBlock;
  device::launch(context.stream(),
                 {dim3(static_cast<unsigned>(blocks)), dim3(kWarp, kSeriesPerBlock)},
                 find_first_complete<T>, params, first_complete);
  if (parameters.plan.ratio != 0 && params.parts > 1) {
    const std::int64_t segments = params.series * params.parts;
    auto* const unchanged = context.scratch<Unchanged>(static_cast<std::size_t>(segments));
    params.unchanged = unchanged;
    device::launch(context.stream(),
                   {dim3(static_cast<unsigned>((segments + kWarp - 1) / kWarp)), dim3(kWarp)},
                   find_unchanged<T>, params, unchanged);
  }
  visit_rule<GpuValue>(parameters.plan, launch);
}

}  // namespace sluice::market::on_gpu
