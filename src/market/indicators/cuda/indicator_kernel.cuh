// A block runs up to 32 segments with three warps: one reads tiles of bars ahead, one computes,
// a segment in each thread, one writes. They synchronise once a tile, so that copies and
// computation of a tile overlap.
//
// Limit: memory. Each input is read once and each output written once: 16 bytes a point for
// one double in and out, 269 Gpt/s at 4.3 TB/s; what a segment reads before its first output
// (the halo) comes on top. In flight: stages x 4 KiB a block, against the 10 to 20 KiB a
// multiprocessor that the latency of memory asks for. 10,000 segments are 2.4 blocks for each
// of an H200's multiprocessors: a bar of a segment may take 70 cycles, so the chain from bar to
// bar is all that may be left in it (Group).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "device/cuda/launch.cuh"
#include "market/indicators/cuda/indicator_kernel_params.cuh"
#include "market/indicators/cuda/shared_memory_tiles.cuh"

namespace sluice::market::on_gpu {

// The ring of a segment in shared memory, interleaved with those of the other lanes.
struct SharedRing {
  Cell* at;

  __device__ __forceinline__ Cell& operator[](int i) const { return at[i * kWarp]; }
  __device__ __forceinline__ SharedRing operator+(int i) const { return {at + i * kWarp}; }
};

// The same in global memory, for long periods.
struct GlobalRing {
  Cell* at;
  std::int64_t stride;

  __device__ __forceinline__ Cell& operator[](int i) const { return at[i * stride]; }
  __device__ __forceinline__ GlobalRing operator+(int i) const { return {at + i * stride, stride}; }
};

// ---- the three warps ----------------------------------------------------------------------

enum WarpRole { kComputeWarp, kLoadWarp, kStoreWarp, kWarpRoles };

// Blocks of a multiprocessor: enough to hide latencies, and what registers allow.
constexpr int kMinBlocks = 3, kMaxBlocks = 4;

__device__ __forceinline__ void sync_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(kWarpRoles * kWarp) : "memory");
}

// The shared memory of a block.
template <class S, class T>
struct Shared {
  T* in;   // [input][segment][in_pitch]
  T* out;  // [output][segment][kOutPitch]: two tiles, and what is past the second
  Cell* ring;
  int pitch;

  static constexpr int kPitch = kOutPitch<T>;
  static constexpr int kOut = S::kOutputs * kWarp * kPitch;

  __device__ __forceinline__ Shared(void* memory, int stages)
      : in(static_cast<T*>(memory)), pitch(in_pitch<T>(stages)) {
    out = in + S::kInputs * kWarp * pitch;
    ring = reinterpret_cast<Cell*>(out + kOut);
  }

  static std::size_t bytes(int stages, std::size_t ring) {
    const int elements = S::kInputs * kWarp * in_pitch<T>(stages) + kOut;
    return static_cast<std::size_t>(elements) * sizeof(T) + ring;
  }
};

template <class S, class T>
__device__ __forceinline__ void load_segments(const Job<T>& job, const Rows& rows,
                                              const Shared<S, T>& shared, int tiles) {
  const TileChunks<T> chunks(rows);
  int slot = 0;
  const auto next = [&](int tile) {
#pragma unroll
    for (int k = 0; k < S::kInputs; ++k)
      fetch(chunks, job.in[k], shared.in + k * kWarp * shared.pitch + slot * kBars, shared.pitch,
            tile * kBars, job.wide);
    __pipeline_commit();
    slot = slot + 1 == job.stages ? 0 : slot + 1;
  };
  for (int tile = 0; tile < job.stages - 1; ++tile) next(tile);
  const int ahead = job.stages - (rows.shifted ? 3 : 2);
  __pipeline_wait_prior(ahead);
  sync_warps();
  for (int tile = 0; tile < tiles; ++tile) {
    next(tile + job.stages - 1);
    __pipeline_wait_prior(ahead);
    sync_warps();
  }
  __pipeline_wait_prior(0);
}

template <class S, class T>
__device__ __forceinline__ void store_segments(const Job<T>& job, const Rows& rows,
                                               const Shared<S, T>& shared, int tiles) {
  const TileChunks<T> chunks(rows);
  sync_warps();
  for (int tile = 0; tile < tiles; ++tile) {
    sync_warps();
#pragma unroll
    for (int k = 0; k < S::kOutputs; ++k)
      write(chunks, job.out[k], shared.out + k * kWarp * shared.kPitch + tile % 2 * kBars,
            tile * kBars, job.wide);
  }
}

// Some bars of a segment at once: what does not need the bar before overlaps.
template <class S, int kSize>
struct Group {
  Cell in[kSize][S::kInputs], out[kSize][S::kOutputs];

  template <class R>
  __device__ __forceinline__ void update(S& state, const Plan& plan, R ring) {
    if constexpr (kSize > 1 && requires { state.block_remaining(plan); }) {
      if (state.block_remaining(plan) >= kSize) return take(state, plan, ring, std::false_type());
    }
    take(state, plan, ring, std::true_type());
  }

  template <class R, class BlockEnds>
  __device__ __forceinline__ void take(S& state, const Plan& plan, R ring, BlockEnds) {
    if constexpr (requires { S::kRaw; }) {
      Cell raw[kSize][S::kRaw];
#pragma unroll
      for (int i = 0; i < kSize; ++i)
        if constexpr (BlockEnds::value)
          state.advance(plan, in[i], ring, raw[i]);
        else
          state.template advance<false>(plan, in[i], ring, raw[i]);
      finish(plan, raw);
    } else {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
#pragma unroll
        for (int k = 0; k < S::kOutputs; ++k) out[i][k] = Cell(0);
        if constexpr (BlockEnds::value)
          state.update(plan, in[i], ring, out[i]);
        else
          state.template update<false>(plan, in[i], ring, out[i]);
      }
    }
  }

  // Approximately first; exactly where that failed.
  template <int kRaw>
  __device__ __forceinline__ void finish(const Plan& plan, const Cell (&raw)[kSize][kRaw]) {
    unsigned rough = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      Rough from[kRaw], made[S::kOutputs];
#pragma unroll
      for (int k = 0; k < kRaw; ++k) from[k] = Rough(raw[i][k].x);
      S::finish(plan, from, made);
#pragma unroll
      for (int k = 0; k < S::kOutputs; ++k) {
        out[i][k] = Cell(made[k].x);
        rough |= static_cast<unsigned>(!finite(made[k].x));
      }
    }
    if (rough == 0) return;
#pragma unroll
    for (int i = 0; i < kSize; ++i) S::finish(plan, raw[i], out[i]);
  }
};

// The tile from bar t on of this thread's segment.
template <class S, class T, class R>
struct Computing {
  static constexpr int kPitch = Shared<S, T>::kPitch;
  const Plan& plan;
  const Shared<S, T>& shared;
  R ring;
  int shift, stages;
  S state{};
  int slot = 0;

  template <bool kSteady>
  __device__ __forceinline__ void tile(int t) {
    const int next = slot + 1 == stages ? 0 : slot + 1, lane = threadIdx.x;
    const T* const from = shared.in + lane * shared.pitch;
    T* const to = shared.out + lane * kPitch;
    const int half = t / kBars % 2 * kBars;
    constexpr int kSize = !kSteady ? 1 : S::kInputs + S::kOutputs <= 2 ? 8 : 4;
#pragma unroll 1
    for (int first = 0; first < kBars; first += kSize) {
      Group<S, kSize> group;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int bar = first + i + shift, past = bar - kBars;
        const bool over = i + kWide<T> > kSize && past >= 0;
#pragma unroll
        for (int k = 0; k < S::kInputs; ++k)
          group.in[i][k] = Cell(static_cast<double>(
              from[k * kWarp * shared.pitch + (over ? next * kBars + past : slot * kBars + bar)]));
      }
      if constexpr (kSteady && requires { state.settle(); }) state.settle();
      group.update(state, plan, ring);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int bar = first + i + shift;
        const bool over = i + kWide<T> > kSize && bar >= kBars;
        const bool quiet = !kSteady && t + first + i < plan.lookback;
#pragma unroll
        for (int k = 0; k < S::kOutputs; ++k)
          to[k * kWarp * kPitch + (over ? kBars + bar : half + bar)] =
              quiet ? static_cast<T>(NAN) : static_cast<T>(group.out[i][k].x);
      }
    }
    slot = next;
  }

  // Copies the outputs that the previous tile made past its end.
  __device__ __forceinline__ void take_over(int t) {
    T* const to = shared.out + threadIdx.x * kPitch;
    for (int i = 0; i < shift; ++i)
#pragma unroll
      for (int k = 0; k < S::kOutputs; ++k)
        to[k * kWarp * kPitch + t / kBars % 2 * kBars + i] = to[k * kWarp * kPitch + 2 * kBars + i];
  }

  __device__ __forceinline__ void run(int tiles) {
    sync_warps();
    for (int i = 0; i < tiles; ++i) {
      const int t = i * kBars;
      take_over(t);
      if (t > plan.lookback)
        tile<true>(t);
      else
        tile<false>(t);
      sync_warps();
    }
  }
};

template <class S, class T, bool kRingInShared>
__global__ void __launch_bounds__(kWarpRoles* kWarp, kMaxBlocks)
    run_segments(const __grid_constant__ Job<T> job) {
  extern __shared__ double2 memory[];
  __shared__ Rows rows;
  const Shared<S, T> shared(memory, job.stages);
  const int role = static_cast<int>(threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  int shift = 0;
  if (role == kComputeWarp) shift = rows.set(own_segment(job), job.bars, job.wide ? kWide<T> : 1);
  __syncthreads();
  const int tiles = (rows.longest + kBars - 1) / kBars;
  if (role == kLoadWarp) {
    load_segments<S>(job, rows, shared, tiles);
  } else if (role == kStoreWarp) {
    store_segments<S>(job, rows, shared, tiles);
  } else {
    const auto ring = [&] {
      if constexpr (kRingInShared)
        return SharedRing{shared.ring + lane};
      else
        return GlobalRing{job.ring + std::int64_t{blockIdx.x} * kWarp + lane,
                          std::int64_t{gridDim.x} * kWarp};
    }();
    for (int i = 0; i < job.plan.ring; ++i) ring[i] = Cell(0);
    Computing<S, T, decltype(ring)>{job.plan, shared, ring, shift, job.stages}.run(tiles);
  }
}

// ---- launch ----------------------------------------------------------------------------

struct Card {
  int processors, shared;  // shared memory of each
};

inline Card this_card() {
  int device = 0;
  Card card{};
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&card.processors, cudaDevAttrMultiProcessorCount, device));
  device::check(
      cudaDeviceGetAttribute(&card.shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return card;
}

// Launches the kernel of a plan's rule.
template <class T>
struct Launch {
  const compute::Call& call;
  compute::LaunchContext& context;
  Job<T> job;
  Card card;

  template <class S>
  void run() {
    using Memory = Shared<S, T>;
    std::size_t ring = static_cast<std::size_t>(job.plan.ring) * kWarp * sizeof(Cell);
    const bool ring_in_global =
        2 * Memory::bytes(kMinStages, ring) > static_cast<std::size_t>(card.shared);
    if (ring_in_global) ring = 0;
    const auto fit = [&](int stages) {
      constexpr std::size_t kReserved = 1024 + sizeof(Rows);  // of each block
      return card.shared / static_cast<std::int64_t>(Memory::bytes(stages, ring) + kReserved);
    };
    const std::int64_t fitting = std::min<std::int64_t>(fit(kMinStages), kMaxBlocks);
    if (job.plan.align != 0) job.parts = parts_for(std::min<std::int64_t>(fitting, kMinBlocks));
    const std::int64_t each = distribute(std::min<std::int64_t>(fitting, kMinBlocks));
    const std::int64_t blocks = (job.series * job.parts + job.segments - 1) / job.segments;
    job.stages = kMaxStages;
    while (job.stages > kMinStages && fit(job.stages) < std::min(each, fitting)) --job.stages;
    if (ring_in_global)
      job.ring = context.scratch<Cell>(static_cast<std::size_t>(job.plan.ring * blocks) * kWarp);
    auto kernel = run_segments<S, T, true>;
    if constexpr (S::kUsesRing)
      if (ring_in_global) kernel = run_segments<S, T, false>;
    start(kernel, blocks, Memory::bytes(job.stages, ring));
  }

  // The same number of blocks, of about as many segments, for each multiprocessor: they share
  // the memory bandwidth evenly, so one with more work would run alone at the end.
  // Returns that number.
  std::int64_t distribute(std::int64_t min_blocks) {
    const std::int64_t all = job.series * job.parts, processors = card.processors;
    const std::int64_t full = kWarp * processors,
                       each = std::max((all + full - 1) / full, min_blocks);
    job.segments = static_cast<int>((all + each * processors - 1) / (each * processors));
    return each;
  }

  // Segments per series, for rules whose segments give the same bits anyway: all that run at once.
  std::int64_t parts_for(std::int64_t fitting) const {
    constexpr std::int64_t kShortest = 512, kOverhead = 16;
    if (job.plan.halo == kEndless) return 1;
    const std::int64_t reach = job.plan.halo + job.plan.lookback + job.plan.align;
    const std::int64_t max_parts = job.bars / std::max(kOverhead * reach, kShortest);
    return std::max<std::int64_t>(
        std::min(fitting * card.processors * kWarp / job.series, max_parts), 1);
  }

  void start(void (*kernel)(Job<T>), std::int64_t blocks, std::size_t shared) {
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared)));
    device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared));
    device::launch(context.stream(),
                   {dim3(static_cast<unsigned>(blocks)), dim3(kWarpRoles * kWarp), shared}, kernel,
                   job);
  }
};

template <class T>
bool all_wide(const compute::Call& call) {
  const auto wide = [](const compute::Operand& operand) {
    return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0;
  };
  return std::all_of(call.in.begin(), call.in.end(), wide) &&
         std::all_of(call.out.begin(), call.out.end(), wide);
}

template <class T>
void batch_on(const compute::Call& call, compute::LaunchContext& context) {
  constexpr std::int64_t kOverhead = 10;
  const auto& batch = call.with<Batch>();
  if (call.items == 0 || batch.bars == 0) return;
  Launch<T> launch{call, context, {}, this_card()};
  Job<T>& job = launch.job;
  job.plan = batch.plan;
  job.bars = batch.bars;
  job.series = static_cast<std::int64_t>(call.items);
  job.parts = segment_count(batch.plan, batch.bars, job.series, kOverhead);
  job.wide = all_wide<T>(call);
  if (batch.bars / job.parts > 1 << 30)
    throw Error(Code::exhausted, "a series too long for one thread of a GPU");
  for (std::size_t k = 0; k < call.in.size(); ++k) job.in[k] = call.input<T>(k);
  for (std::size_t k = 0; k < call.out.size(); ++k) job.out[k] = call.output<T>(k);
  auto* const first_complete = context.scratch<std::int64_t>(call.items);
  job.first_complete = first_complete;
  const std::int64_t blocks = (job.series + kSeriesPerBlock - 1) / kSeriesPerBlock;
  device::launch(context.stream(),
                 {dim3(static_cast<unsigned>(blocks)), dim3(kWarp, kSeriesPerBlock)},
                 find_first_complete<T>, job, first_complete);
  if (batch.plan.ratio != 0 && job.parts > 1) {
    const std::int64_t segments = job.series * job.parts;
    auto* const unchanged = context.scratch<Unchanged>(static_cast<std::size_t>(segments));
    job.unchanged = unchanged;
    device::launch(context.stream(),
                   {dim3(static_cast<unsigned>((segments + kWarp - 1) / kWarp)), dim3(kWarp)},
                   find_unchanged<T>, job, unchanged);
  }
  visit_rule<Cell>(batch.plan, launch);
}

}  // namespace sluice::market::on_gpu
