// The kernel of every indicator: run_segments<S> below, where S is a rule of indicators/rules
// (RsiRule for RSI) with GpuValue as its value. launch_indicator() of indicator_launch.cuh
// chooses it for a plan.
//
// A block runs up to 32 segments with three warps: one loads tiles of bars ahead, one computes,
// with a segment in each thread, one stores. They synchronise once a tile, so that copies and
// computation overlap.
//
// Limit: memory. Each input is read once and each output written once: 16 bytes a point for
// one double in and out, 269 Gpt/s at 4.3 TB/s; what a segment reads before its first output
// (the halo) comes on top. In flight: stages x 4 KiB a block, against the 10 to 20 KiB a
// multiprocessor that the latency of memory asks for. 10,000 segments are 2.4 blocks for each
// of an H200's multiprocessors: a bar of a segment may take 70 cycles, so the chain from bar to
// bar is all that may be left in it (BarGroup).
#pragma once

#include <cstdint>
#include <type_traits>

#include "market/indicators/cuda/indicator_kernel_params.cuh"
#include "market/indicators/cuda/shared_memory_tiles.cuh"

namespace sluice::market::on_gpu {

// The ring of a segment in shared memory, interleaved with those of the other lanes.
struct SharedRing {
  GpuValue* at;

  __device__ __forceinline__ GpuValue& operator[](int i) const { return at[i * kWarp]; }
  __device__ __forceinline__ SharedRing operator+(int i) const { return {at + i * kWarp}; }
};

// The same in global memory, for long periods.
struct GlobalRing {
  GpuValue* at;
  std::int64_t stride;

  __device__ __forceinline__ GpuValue& operator[](int i) const { return at[i * stride]; }
  __device__ __forceinline__ GlobalRing operator+(int i) const { return {at + i * stride, stride}; }
};

// ---- the three warps ----------------------------------------------------------------------

enum WarpRole { kComputeWarp, kLoadWarp, kStoreWarp, kWarpRoles };

// Blocks of a multiprocessor: kMinBlocks hide latencies, registers allow kMaxBlocks.
constexpr int kMinBlocks = 3, kMaxBlocks = 4;

__device__ __forceinline__ void sync_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(kWarpRoles * kWarp) : "memory");
}

// The shared memory of a block.
template <class S, class T>
struct BlockMemory {
  T* in;   // [input][segment][in_pitch]
  T* out;  // [output][segment][kOutPitch]: two tiles, and what is past the second
  GpuValue* ring;
  int pitch;

  static constexpr int kPitch = kOutPitch<T>;
  static constexpr int kOut = S::kOutputs * kWarp * kPitch;

  __device__ __forceinline__ BlockMemory(void* memory, int stages)
      : in(static_cast<T*>(memory)), pitch(in_pitch<T>(stages)) {
    out = in + S::kInputs * kWarp * pitch;
    ring = reinterpret_cast<GpuValue*>(out + kOut);
  }

  static std::size_t bytes(int stages, std::size_t ring) {
    const int elements = S::kInputs * kWarp * in_pitch<T>(stages) + kOut;
    return static_cast<std::size_t>(elements) * sizeof(T) + ring;
  }
};

template <class S, class T>
__device__ __forceinline__ void load_segments(const KernelParams<T>& params,
                                              const SegmentRows& rows,
                                              const BlockMemory<S, T>& shared, int tiles) {
  const TileChunks<T> chunks(rows);
  int slot = 0;
  const auto next = [&](int tile) {
#pragma unroll
    for (int k = 0; k < S::kInputs; ++k)
      load_tile_async(chunks, params.in[k], shared.in + k * kWarp * shared.pitch + slot * kBars,
                      shared.pitch, tile * kBars, params.aligned);
    __pipeline_commit();
    slot = slot + 1 == params.stages ? 0 : slot + 1;
  };
  for (int tile = 0; tile < params.stages - 1; ++tile) next(tile);
  const int ahead = params.stages - (rows.shifted ? 3 : 2);
  __pipeline_wait_prior(ahead);
  sync_warps();
  for (int tile = 0; tile < tiles; ++tile) {
    next(tile + params.stages - 1);
    __pipeline_wait_prior(ahead);
    sync_warps();
  }
  __pipeline_wait_prior(0);
}

template <class S, class T>
__device__ __forceinline__ void store_segments(const KernelParams<T>& params,
                                               const SegmentRows& rows,
                                               const BlockMemory<S, T>& shared, int tiles) {
  const TileChunks<T> chunks(rows);
  sync_warps();
  for (int tile = 0; tile < tiles; ++tile) {
    sync_warps();
#pragma unroll
    for (int k = 0; k < S::kOutputs; ++k)
      store_tile(chunks, params.out[k], shared.out + k * kWarp * shared.kPitch + tile % 2 * kBars,
                 tile * kBars, params.aligned);
  }
}

// Updates a rule with kSize bars of a segment. What does not depend on the bar before overlaps.
template <class S, int kSize>
struct BarGroup {
  GpuValue in[kSize][S::kInputs], out[kSize][S::kOutputs];

  template <class R>
  __device__ __forceinline__ void update(S& state, const Plan& plan, R ring) {
    if constexpr (kSize > 1 && requires { state.block_remaining(plan); }) {
      if (state.block_remaining(plan) >= kSize) return update(state, plan, ring, std::false_type());
    }
    update(state, plan, ring, std::true_type());
  }

  template <class R, class BlockEnds>
  __device__ __forceinline__ void update(S& state, const Plan& plan, R ring, BlockEnds) {
    if constexpr (requires { S::kRaw; }) {
      GpuValue raw[kSize][S::kRaw];
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
        for (int k = 0; k < S::kOutputs; ++k) out[i][k] = GpuValue(0);
        if constexpr (BlockEnds::value)
          state.update(plan, in[i], ring, out[i]);
        else
          state.template update<false>(plan, in[i], ring, out[i]);
      }
    }
  }

  // Uses approximate quotients and roots first, and exact ones if a result is not finite.
  template <int kRaw>
  __device__ __forceinline__ void finish(const Plan& plan, const GpuValue (&raw)[kSize][kRaw]) {
    unsigned rough = 0;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      ApproximateGpuValue from[kRaw], made[S::kOutputs];
#pragma unroll
      for (int k = 0; k < kRaw; ++k) from[k] = ApproximateGpuValue(raw[i][k].x);
      S::finish(plan, from, made);
#pragma unroll
      for (int k = 0; k < S::kOutputs; ++k) {
        out[i][k] = GpuValue(made[k].x);
        rough |= static_cast<unsigned>(!finite(made[k].x));
      }
    }
    if (rough == 0) return;
#pragma unroll
    for (int i = 0; i < kSize; ++i) S::finish(plan, raw[i], out[i]);
  }
};

// One segment in one thread: the rule's state, and the bars that it reads and writes tile by tile.
template <class S, class T, class R>
struct SegmentThread {
  static constexpr int kPitch = BlockMemory<S, T>::kPitch;
  const Plan& plan;
  const BlockMemory<S, T>& shared;
  R ring;
  int shift, stages;
  S state{};
  int slot = 0;

  // Computes the tile from bar t on. kSteady: the look-back is over.
  template <bool kSteady>
  __device__ __forceinline__ void tile(int t) {
    const int next = slot + 1 == stages ? 0 : slot + 1, lane = threadIdx.x;
    const T* const from = shared.in + lane * shared.pitch;
    T* const to = shared.out + lane * kPitch;
    const int half = t / kBars % 2 * kBars;
    constexpr int kSize = !kSteady ? 1 : S::kInputs + S::kOutputs <= 2 ? 8 : 4;
#pragma unroll 1
    for (int first = 0; first < kBars; first += kSize) {
      BarGroup<S, kSize> group;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int bar = first + i + shift, past = bar - kBars;
        const bool over = i + kChunkSize<T> > kSize && past >= 0;
#pragma unroll
        for (int k = 0; k < S::kInputs; ++k)
          group.in[i][k] = GpuValue(static_cast<double>(
              from[k * kWarp * shared.pitch + (over ? next * kBars + past : slot * kBars + bar)]));
      }
      if constexpr (kSteady && requires { state.settle(); }) state.settle();
      group.update(state, plan, ring);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int bar = first + i + shift;
        const bool over = i + kChunkSize<T> > kSize && bar >= kBars;
        const bool quiet = !kSteady && t + first + i < plan.lookback;
#pragma unroll
        for (int k = 0; k < S::kOutputs; ++k)
          to[k * kWarp * kPitch + (over ? kBars + bar : half + bar)] =
              quiet ? static_cast<T>(NAN) : static_cast<T>(group.out[i][k].x);
      }
    }
    slot = next;
  }

  // Copies the outputs that the previous tile wrote past its end.
  __device__ __forceinline__ void carry_over(int t) {
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
      carry_over(t);
      if (t > plan.lookback)
        tile<true>(t);
      else
        tile<false>(t);
      sync_warps();
    }
  }
};

// The kernel for rule S, for example RsiRule<GpuValue> of rules/rsi_momentum-inl.h.
template <class S, class T, bool kRingInShared>
__global__ void __launch_bounds__(kWarpRoles* kWarp, kMaxBlocks)
    run_segments(const __grid_constant__ KernelParams<T> params) {
  extern __shared__ double2 memory[];
  __shared__ SegmentRows rows;
  const BlockMemory<S, T> shared(memory, params.stages);
  const int role = static_cast<int>(threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  int shift = 0;
  if (role == kComputeWarp)
    shift = rows.set(own_segment(params), params.bars, params.aligned ? kChunkSize<T> : 1);
  __syncthreads();
  const int tiles = (rows.longest + kBars - 1) / kBars;
  if (role == kLoadWarp) {
    load_segments<S>(params, rows, shared, tiles);
  } else if (role == kStoreWarp) {
    store_segments<S>(params, rows, shared, tiles);
  } else {
    const auto ring = [&] {
      if constexpr (kRingInShared)
        return SharedRing{shared.ring + lane};
      else
        return GlobalRing{params.ring + std::int64_t{blockIdx.x} * kWarp + lane,
                          std::int64_t{gridDim.x} * kWarp};
    }();
    for (int i = 0; i < params.plan.ring; ++i) ring[i] = GpuValue(0);
    SegmentThread<S, T, decltype(ring)>{params.plan, shared, ring, shift, params.stages}.run(tiles);
  }
}

}  // namespace sluice::market::on_gpu
