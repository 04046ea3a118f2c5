// How the bars of 32 lines travel between global memory and a block: tiles of kBars bars,
// 16 bytes at a time, through rings of tiles in shared memory.
//
// A line may begin anywhere, a copy of 16 bytes only at a multiple of 16. So a line's row
// begins at the multiple before it, `shift` elements earlier, and so do all of its tiles:
// what the line needs of a tile ends in the next one.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "market/indicators/cell.cuh"
#include "market/indicators/lines.h"

namespace sluice::market::on_gpu {

constexpr int kWarp = 32;
constexpr int kBars = 16;        // of a tile: 128 bytes of a row of doubles
constexpr int kMostStages = 6;   // tiles of an input; more of them do not help
constexpr int kLeastStages = 4;  // two that are read, one that comes, one that is free

template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));  // elements that move together

// Elements of a row in shared memory. Neither lanes that each read their row nor those that
// move tiles meet in a bank (but for two at a time in the input's).
template <class T>
SLUICE_HD constexpr int in_pitch(int stages) {
  return stages * kBars + kWide<T>;
}
template <class T>
constexpr int kOutPitch = 2 * kBars + kWide<T> - 1;

// The rows of a block's lines, in elements from the first of the arrays.
struct Rows {
  std::int64_t at[kWarp];
  int begin[kWarp], end[kWarp];  // to be stored
  int longest;                   // end
  bool shifted;                  // some of them

  // By the first warp; 16 bytes are `wide` elements.
  __device__ __forceinline__ int set(const Line& line, std::int64_t bars, int wide) {
    const std::int64_t first = line.series * bars + line.from;
    const int lane = threadIdx.x, shift = static_cast<int>(first % wide);
    at[lane] = first - shift;
    begin[lane] = static_cast<int>(line.first - line.from) + shift;
    end[lane] = static_cast<int>(line.end - line.from) + shift;
    const int most = __reduce_max_sync(~0u, end[lane]);
    const bool some = __any_sync(~0u, shift != 0);
    if (lane == 0) longest = most, shifted = some;
    return shift;
  }
};

// A lane's share of a tile: one chunk of every kStep-th row.
template <class T>
struct Share {
  static constexpr int kChunks = kBars / kWide<T>, kStep = kWarp / kChunks;
  static_assert(kStep * kChunks == kWarp);
  std::int64_t at[kChunks];
  int begin[kChunks], end[kChunks];
  int row, bar;  // of the first

  __device__ __forceinline__ explicit Share(const Rows& rows) {
    const int lane = threadIdx.x % kWarp;
    row = lane / kChunks, bar = lane % kChunks * kWide<T>;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      at[i] = rows.at[row + i * kStep] + bar;
      begin[i] = rows.begin[row + i * kStep] - bar;
      end[i] = rows.end[row + i * kStep] - bar;
    }
  }
};

// Begins to copy 16 bytes. Memory likes to be read in longer pieces than a tile's: the rest of
// the 256 bytes around them comes into the cache, for the tile after.
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
__device__ __forceinline__ void fetch(const Share<T>& share, const T* from, T* tile, int pitch,
                                      int t, bool wide) {
  constexpr int kStep = Share<T>::kStep;
#pragma unroll
  for (int i = 0; i < Share<T>::kChunks; ++i) {
    T* const to = tile + (share.row + i * kStep) * pitch + share.bar;
    const T* const source = from + share.at[i] + t;
    const int left = share.end[i] - t;
    if (wide && left >= kWide<T>) {
      copy_chunk(to, source);
    } else {
#pragma unroll
      for (int j = 0; j < kWide<T>; ++j)
        if (j < left) __pipeline_memcpy_async(to + j, source + j, sizeof(T));
    }
  }
}

// Stores a tile's bars from t on.
template <class T>
__device__ __forceinline__ void write(const Share<T>& share, T* to, const T* tile, int t,
                                      bool wide) {
  constexpr int kStep = Share<T>::kStep;
#pragma unroll
  for (int i = 0; i < Share<T>::kChunks; ++i) {
    const T* const from = tile + (share.row + i * kStep) * kOutPitch<T> + share.bar;
    alignas(16) T chunk[kWide<T>];
#pragma unroll
    for (int j = 0; j < kWide<T>; ++j) chunk[j] = from[j];
    T* const target = to + share.at[i] + t;
    if (wide && t >= share.begin[i] && t + kWide<T> <= share.end[i]) {
      *reinterpret_cast<int4*>(target) = *reinterpret_cast<const int4*>(chunk);
    } else {
#pragma unroll
      for (int j = 0; j < kWide<T>; ++j)
        if (t + j >= share.begin[i] && t + j < share.end[i]) __stcs(target + j, chunk[j]);
    }
  }
}

}  // namespace sluice::market::on_gpu
