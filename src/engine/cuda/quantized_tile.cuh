// What products of small numbers are made of, however they are multiplied: tiles of both sides
// pass through shared memory, the next ones while the present are multiplied, and the sums leave
// by shared memory too, so that results are written in whole lines.
#pragma once

#include <algorithm>

#include "engine/cuda/launch.cuh"
#include "engine/cuda/mma.cuh"
#include "engine/cuda/quantized_finish.cuh"

namespace sluice::engine::cuda {

// Of kRows x kColumns results, by kThreads threads; kDepth bytes of k in a stage.
template <int kThreadsOf, int kRowsOf, int kColumnsOf, int kDepthOf, int kStagesOf>
struct SmallShape {
  static constexpr int kThreads = kThreadsOf, kRows = kRowsOf, kColumns = kColumnsOf;
  static constexpr int kDepth = kDepthOf, kStages = kStagesOf;
  static constexpr int kParts = kDepth / 16;         // of a row, as they are copied
  static constexpr int kAtOnce = kThreads / kParts;  // rows that all threads together fetch
  static constexpr int kStage = (kRows + kColumns) * kDepth;
  static constexpr int kSumRow = kColumns + 8;  // four rows in different banks
  static constexpr int kShared = std::max(kStages * kStage, kRows* kSumRow * 4);

  __device__ static int part() { return static_cast<int>(threadIdx.x) % kParts; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kParts; }
  // Where a row's part lies in a stage: eight neighbours of a column in different banks.
  __device__ static unsigned place(int row, int part) {
    const int turn = kDepth == 64 ? row / 2 % 4 : row % 8;
    return static_cast<unsigned>(row * kDepth + (part ^ turn) * 16);
  }
};

// A thread's share of the left side: one part of every kAtOnce-th row.
template <class S>
class SmallLeft {
 public:
  __device__ SmallLeft(const SmallRows& r, long long first, long long end) : r_(r) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const long long row = first + S::row() + i * S::kAtOnce;
      image_[i] = nullptr;
      if (row >= end) continue;
      const int pixels = r.out_high * r.out_wide;
      const int image = static_cast<int>(row) / pixels, pixel = static_cast<int>(row) % pixels;
      image_[i] = static_cast<const unsigned char*>(r.x) +
                  image * (static_cast<long long>(r.high) * r.wide * r.channels);
      y_[i] = pixel / r.out_wide * r.stride_high - r.top;
      x_[i] = pixel % r.out_wide * r.stride_wide - r.left;
    }
    go(S::part() * 16);
  }

  // The next kDepth bytes of k, to the stage at `to`.
  __device__ void fetch(unsigned to) {
    const bool is_window = down_ < r_.kernel_high;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int y = y_[i] + down_ * r_.dilation_high, x = x_[i] + across_ * r_.dilation_wide;
      const bool is_there = is_window && image_[i] != nullptr;
      const bool is_inside = is_there && y >= 0 && y < r_.high && x >= 0 && x < r_.wide;
      const unsigned at = to + S::place(S::row() + i * S::kAtOnce, S::part());
      if (is_there && !is_inside && r_.outside != 0) {
        store_outside(at);
      } else {
        const long long pixel = static_cast<long long>(y) * r_.wide + x;
        copy_async(at, is_inside ? image_[i] + pixel * r_.channels + channel_ : r_.x, is_inside);
      }
    }
    go(S::kDepth);
  }

 private:
  static constexpr int kMine = S::kRows / S::kAtOnce;

  __device__ void go(int bytes) {
    for (channel_ += bytes; channel_ >= r_.channels && down_ < r_.kernel_high;) {
      channel_ -= r_.channels;
      if (++across_ == r_.kernel_wide) across_ = 0, ++down_;
    }
  }

  __device__ void store_outside(unsigned at) const {
    const unsigned four = r_.outside * 0x01010101u;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(four) : "memory");
  }

  const SmallRows& r_;
  const unsigned char* image_[kMine];  // null: no such row
  int y_[kMine], x_[kMine];            // of the window's first pixel
  int down_ = 0, across_ = 0, channel_ = 0;
};

// The right side: the next kDepth bytes of columns, which lie as rows of `size` bytes.
template <class S>
__device__ void fetch_right(unsigned to, const unsigned char* from, int first, int n, int at,
                            int size) {
#pragma unroll
  for (int i = 0; i < S::kColumns / S::kAtOnce; ++i) {
    const int row = S::row() + i * S::kAtOnce, byte = at + S::part() * 16;
    const bool is = first + row < n && byte < size;
    copy_async(to + S::place(row, S::part()),
               is ? from + static_cast<long long>(first + row) * size + byte : from, is);
  }
}

// All results of a tile, N columns a thread, from its sums in shared memory.
template <class S, int N, class Sum>
__device__ void finish_tile(const SmallFinish& f, const Sum* sums, long long row, int column) {
  constexpr int kAcross = S::kColumns / N, kDown = S::kThreads / kAcross;
  constexpr int kTogether = 8;  // rows whose residuals are on their way at once
  const int own = static_cast<int>(threadIdx.x) % kAcross * N;
  if (column + own >= f.n) return;
  const Columns<Sum, N> columns(f, column + own);
  const int end = static_cast<int>(min(static_cast<long long>(S::kRows), f.rows - row));
  for (int i = static_cast<int>(threadIdx.x) / kAcross; i < end; i += kDown * kTogether) {
    Packs<N, kTogether> packs{.at = ((row + i) * f.n + column + own) / N,
                              .step = static_cast<long long>(kDown) * f.n / N,
                              .count = min(kTogether, (end - i + kDown - 1) / kDown)};
    columns.finish(f, packs, [&](int k) {
      return *reinterpret_cast<const Pack<Sum, N>*>(sums + (i + k * kDown) * S::kSumRow + own);
    });
  }
}

template <class S, class Sum>
__device__ void finish_tile(const SmallFinish& f, const Sum* sums, long long row, int column) {
  if (f.n % 4 == 0) return finish_tile<S, 4>(f, sums, row, column);
  finish_tile<S, 1>(f, sums, row, column);
}

// Where a block's tile is.
struct SmallPlace {
  long long row;
  int column;
};
template <class S>
__device__ SmallPlace small_place(const SmallFinish& f) {
  const int across = (f.n + S::kColumns - 1) / S::kColumns;
  return {static_cast<long long>(blockIdx.x) / across * S::kRows,
          static_cast<int>(blockIdx.x) % across * S::kColumns};
}

template <class S>
void enqueue_tiles(const SmallProduct& p, void (*kernel)(SmallProduct), int shared,
                   cudaStream_t stream) {
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  const long long tiles =
      (p.finish.rows + S::kRows - 1) / S::kRows * ((p.finish.n + S::kColumns - 1) / S::kColumns);
  launch(stream,
         {dim3(static_cast<unsigned>(tiles)), dim3(S::kThreads), static_cast<std::size_t>(shared)},
         kernel, p);
}

}  // namespace sluice::engine::cuda
