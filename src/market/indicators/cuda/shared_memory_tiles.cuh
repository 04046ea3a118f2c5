// Copies the bars of 32 segments between global memory and a block: tiles of kBars bars, 16 bytes
// at a time, through rings of tiles in shared memory.
//
// A segment may begin anywhere, a copy of 16 bytes only at a multiple of 16. So a segment's row
// begins at the multiple before it, `shift` elements earlier, and so do all of its tiles:
// what the segment needs of a tile ends in the next one.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "market/indicators/cuda/gpu_value.cuh"
#include "market/indicators/plan/segments.h"

namespace sluice::market::on_gpu {

constexpr int kWarp = 32;
constexpr int kBars = 16;      // of a tile: 128 bytes of a row of doubles
constexpr int kMaxStages = 6;  // tiles of an input; more of them do not help
constexpr int kMinStages = 4;  // two that are read, one in flight, one that is free

template <class T>
constexpr int kChunkSize = 16 / static_cast<int>(sizeof(T));  // elements that move together

// Elements of a row in shared memory. Lanes that read their rows, and lanes that move tiles, use
// different banks (at most two share one, in the input's tiles).
template <class T>
SLUICE_HD constexpr int in_pitch(int stages) {
  return stages * kBars + kChunkSize<T>;
}
template <class T>
constexpr int kOutPitch = 2 * kBars + kChunkSize<T> - 1;

// __reduce_max_sync exists from 8.0 on.
__device__ __forceinline__ int warp_max(int x) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) x = max(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}

// The rows of a block's segments, in elements from the first of the arrays.
struct SegmentRows {
  std::int64_t at[kWarp];
  int begin[kWarp], end[kWarp];  // to be stored
  int longest;                   // the largest end
  bool shifted;                  // whether any row is

  // Called by the first warp; 16 bytes are `wide` elements.
  __device__ __forceinline__ int set(const Segment& segment, std::int64_t bars, int wide) {
    const std::int64_t first = segment.series * bars + segment.from;
    const int lane = threadIdx.x, shift = static_cast<int>(first % wide);
    at[lane] = first - shift;
    begin[lane] = static_cast<int>(segment.first - segment.from) + shift;
    end[lane] = static_cast<int>(segment.end - segment.from) + shift;
    const int max_end = warp_max(end[lane]);
    const bool some = __any_sync(~0u, shift != 0);
    if (lane == 0) longest = max_end, shifted = some;
    return shift;
  }
};

// The chunks of a tile that a lane copies: one of every kStep-th row.
template <class T>
struct TileChunks {
  static constexpr int kChunks = kBars / kChunkSize<T>, kStep = kWarp / kChunks;
  static_assert(kStep * kChunks == kWarp);
  std::int64_t at[kChunks];
  int begin[kChunks], end[kChunks];
  int row, bar;  // of the first

  __device__ __forceinline__ explicit TileChunks(const SegmentRows& rows) {
    const int lane = threadIdx.x % kWarp;
    row = lane / kChunks, bar = lane % kChunks * kChunkSize<T>;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      at[i] = rows.at[row + i * kStep] + bar;
      begin[i] = rows.begin[row + i * kStep] - bar;
      end[i] = rows.end[row + i * kStep] - bar;
    }
  }
};

// Begins to copy 16 bytes. DRAM is read in longer pieces than a tile's row: the rest of the 256
// bytes around them is prefetched into the L2 cache, for the next tile.
__device__ __forceinline__ void copy_chunk(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
#else
  __pipeline_memcpy_async(to, from, 16);
#endif
}

// Begins to copy the bars from t on of the rows into a tile.
template <class T>
__device__ __forceinline__ void load_tile_async(const TileChunks<T>& chunks, const T* from, T* tile,
                                                int pitch, int t, bool aligned) {
  constexpr int kStep = TileChunks<T>::kStep;
#pragma unroll
  for (int i = 0; i < TileChunks<T>::kChunks; ++i) {
    T* const to = tile + (chunks.row + i * kStep) * pitch + chunks.bar;
    const T* const source = from + chunks.at[i] + t;
    const int left = chunks.end[i] - t;
    if (aligned && left >= kChunkSize<T>) {
      copy_chunk(to, source);
    } else {
#pragma unroll
      for (int j = 0; j < kChunkSize<T>; ++j)
        if (j < left) __pipeline_memcpy_async(to + j, source + j, sizeof(T));
    }
  }
}

// Stores a tile's bars from t on.
template <class T>
__device__ __forceinline__ void store_tile(const TileChunks<T>& chunks, T* to, const T* tile, int t,
                                           bool aligned) {
  constexpr int kStep = TileChunks<T>::kStep;
#pragma unroll
  for (int i = 0; i < TileChunks<T>::kChunks; ++i) {
    const T* const from = tile + (chunks.row + i * kStep) * kOutPitch<T> + chunks.bar;
    alignas(16) T chunk[kChunkSize<T>];
#pragma unroll
    for (int j = 0; j < kChunkSize<T>; ++j) chunk[j] = from[j];
    T* const target = to + chunks.at[i] + t;
    if (aligned && t >= chunks.begin[i] && t + kChunkSize<T> <= chunks.end[i]) {
      *reinterpret_cast<int4*>(target) = *reinterpret_cast<const int4*>(chunk);
    } else {
#pragma unroll
      for (int j = 0; j < kChunkSize<T>; ++j)
        if (t + j >= chunks.begin[i] && t + j < chunks.end[i]) __stcs(target + j, chunk[j]);
    }
  }
}

}  // namespace sluice::market::on_gpu
