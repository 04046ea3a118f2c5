// Products and convolutions of bytes, with all that follows them, in one kernel, which
// multiplies on the tensor cores, 16 x 8 x 32 numbers at a time. A convolution reads its pixels
// where they lie.
//
// Limit: the tensor cores where k is large, memory where it is small. Sums are exact, so that which
// of these tiles it is makes no difference.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/quantized/epilogue.cuh"
#include "kernels/quantized/int8_gemm_sm90.h"
#include "kernels/quantized/tile_order.cuh"

namespace sluice::kernels::cuda {
namespace {

// sum += left * right, of 16 x 32 and 32 x 8 numbers.
#if __CUDA_ARCH__ >= 800
#define SLUICE_MULTIPLY_ADD(types, kind)                                       \
  asm("mma.sync.aligned.m16n8k32.row.col." types                               \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
      : "+" kind(sum[0]), "+" kind(sum[1]), "+" kind(sum[2]), "+" kind(sum[3]) \
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]))
#else  // built for GPUs that have no such thing, and run on one that has
#define SLUICE_MULTIPLY_ADD(types, kind) __trap()
#endif
struct Unsigned {
  using Sum = int;
  __device__ static void add(int (&sum)[4], const unsigned (&left)[4], const unsigned* right) {
    SLUICE_MULTIPLY_ADD("s32.u8.s8.s32", "r");
  }
};
struct Signed {
  using Sum = int;
  __device__ static void add(int (&sum)[4], const unsigned (&left)[4], const unsigned* right) {
    SLUICE_MULTIPLY_ADD("s32.s8.s8.s32", "r");
  }
};
#undef SLUICE_MULTIPLY_ADD

// Of kRows x kColumns results; kThreads threads fetch, kDepth bytes of k in a stage.
template <int kThreadsOf, int kRowsOf, int kColumnsOf, int kDepthOf>
struct SmallShape {
  static constexpr int kThreads = kThreadsOf, kRows = kRowsOf, kColumns = kColumnsOf;
  static constexpr int kDepth = kDepthOf;
  static constexpr int kParts = kDepth / 16;         // of a row, as they are copied
  static constexpr int kAtOnce = kThreads / kParts;  // rows that all threads together fetch
  static constexpr int kStage = (kRows + kColumns) * kDepth;
  static constexpr unsigned kNext = kAtOnce * kDepth;  // from a row of a thread to its next
  static_assert(kAtOnce % 8 == 0);                     // those are turned alike

  __device__ static int part() { return static_cast<int>(threadIdx.x) % kParts; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) % kThreads / kParts; }
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
    const int pixels = r.out_high * r.out_wide;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const long long row = first + S::row() + i * S::kAtOnce;
      const int image = static_cast<int>(row) / pixels, pixel = static_cast<int>(row) % pixels;
      const int y = pixel / r.out_wide * r.stride_high - r.top;
      x_[i] = pixel % r.out_wide * r.stride_wide - r.left;
      y_[i] = row < end ? y : kNowhere;
      pixel_[i] = (image * r.high + y) * r.wide + x_[i];
    }
    go(S::part() * 16);
  }

  // The next kDepth bytes of k, to the stage at `to`.
  __device__ void fetch(unsigned to) {
    const bool is_window = down_ < r_.kernel_high;
    const int down = down_ * r_.dilation_high, across = across_ * r_.dilation_wide;
    const int further = down * r_.wide + across;
    const auto* const from = static_cast<const unsigned char*>(r_.x) + channel_;
    to += S::place(S::row(), S::part());
#pragma unroll
    for (int i = 0; i < kMine; ++i, to += S::kNext) {
      const bool is_inside =
          is_window && within(y_[i] + down, r_.high) && within(x_[i] + across, r_.wide);
      const long long pixel = pixel_[i] + further;
      if (is_window && !is_inside && r_.outside != 0)
        store_outside(to);
      else
        copy_async(to, is_inside ? from + pixel * r_.pixel : r_.x, is_inside);
    }
    go(S::kDepth);
  }

 private:
  static constexpr int kMine = S::kRows / S::kAtOnce;
  static constexpr int kNowhere = -(1 << 30);  // of a row that is not there

  __device__ static bool within(int at, int size) {
    return static_cast<unsigned>(at) < static_cast<unsigned>(size);
  }

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
  int pixel_[kMine], y_[kMine], x_[kMine];  // the window's first
  int down_ = 0, across_ = 0, channel_ = 0;
};

// The right side: the next kDepth bytes of columns, which lie as rows of `size` bytes.
template <class S>
__device__ void fetch_right(unsigned to, const unsigned char* from, int first, int n, int at,
                            int size) {
  const int byte = at + S::part() * 16, end = byte < size ? n : 0;
  const auto* next = from + static_cast<long long>(first + S::row()) * size + byte;
  to += S::place(S::row(), S::part());
#pragma unroll 4
  for (int row = first + S::row(); row < first + S::kColumns; row += S::kAtOnce) {
    copy_async(to, row < end ? next : from, row < end);
    next += static_cast<long long>(S::kAtOnce) * size;
    to += S::kNext;
  }
}

// Four warps, each a quarter of the tile.
template <int kRows, int kColumns>
struct Shape : SmallShape<128, kRows, kColumns, 64> {
  static constexpr int kStages = 4;
  static constexpr int kSumRow = kColumns + 8;  // four rows in different banks
  static constexpr int kShared = std::max(kStages * Shape::kStage, kRows* kSumRow * 4);
};

// A warp's sums.
template <class Kind, class S>
struct WarpSums {
  static constexpr int kDown = S::kRows / 2 / 16, kAcross = S::kColumns / 2 / 8;
  using Sum = typename Kind::Sum;
  Sum at[kDown][kAcross][4] = {};
  int row, column;  // of the tile, where the warp begins

  __device__ WarpSums()
      : row(static_cast<int>(threadIdx.x) / 32 / 2 * (S::kRows / 2)),
        column(static_cast<int>(threadIdx.x) / 32 % 2 * (S::kColumns / 2)) {}

  __device__ void add(unsigned left, unsigned right) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int part = 0; part < S::kParts; part += 2) {
      unsigned l[kDown][4], r[kAcross / 2][4];
#pragma unroll
      for (int i = 0; i < kDown; ++i)
        load_tiles(l[i], left + S::place(row + i * 16 + lane % 16, part + lane / 16));
#pragma unroll
      for (int j = 0; j < kAcross / 2; ++j)
        load_tiles(r[j], right + S::place(column + j * 16 + lane / 16 * 8 + lane % 8,
                                          part + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kDown; ++i)
#pragma unroll
        for (int j = 0; j < kAcross; ++j) Kind::add(at[i][j], l[i], &r[j / 2][j % 2 * 2]);
    }
  }

  __device__ void store(Sum* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        Sum* const first =
            to + (row + i * 16 + lane / 4) * S::kSumRow + column + j * 8 + lane % 4 * 2;
        const Sum(&x)[4] = at[i][j];
        *reinterpret_cast<Pack<Sum, 2>*>(first) = {x[0], x[1]};
        *reinterpret_cast<Pack<Sum, 2>*>(first + 8 * S::kSumRow) = {x[2], x[3]};
      }
  }
};

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

template <class Kind, class S>
__global__ void __launch_bounds__(S::kThreads) product(const __grid_constant__ SmallProduct p) {
  const auto [row, column] = small_place<S>(p.finish, blockIdx.x);
  const unsigned shared = shared_address(shared_bytes);
  const auto size = static_cast<int>(p.rows.row);
  const int steps = (size + S::kDepth - 1) / S::kDepth;
  SmallLeft<S> left(p.rows, row, p.finish.rows);
  const auto fetch = [&, column = column](int step) {
    if (step < steps) {
      const unsigned to = shared + static_cast<unsigned>(step % S::kStages * S::kStage);
      left.fetch(to);
      fetch_right<S>(to + S::kRows * S::kDepth, static_cast<const unsigned char*>(p.weight), column,
                     p.finish.n, step * S::kDepth, size);
    }
    commit_copies();  // also where there is none, so that groups can be counted
  };
  for (int step = 0; step < S::kStages - 1; ++step) fetch(step);
  WarpSums<Kind, S> sums;
  for (int step = 0; step < steps; ++step) {
    await_copies<S::kStages - 2>();
    __syncthreads();
    fetch(step + S::kStages - 1);
    const unsigned stage = shared + static_cast<unsigned>(step % S::kStages * S::kStage);
    sums.add(stage, stage + S::kRows * S::kDepth);
  }
  await_copies<0>();
  __syncthreads();
  auto* const kept = reinterpret_cast<typename Kind::Sum*>(shared_bytes);
  sums.store(kept);
  __syncthreads();
  finish_tile<S>(p.finish, kept, row, column);
}

template <class Kind, int kRows, int kColumns>
void enqueue_shape(const SmallProduct& p, cudaStream_t stream) {
  using S = Shape<kRows, kColumns>;
  const auto kernel = product<Kind, S>;
  device::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared));
  launch(stream, {dim3(tiles_of<S>(p.finish)), dim3(S::kThreads), S::kShared}, kernel, p);
}

template <class Kind>
void enqueue_kind(const SmallProduct& p, cudaStream_t stream) {
  switch (p.tile) {
    case SmallTile::large: return enqueue_shape<Kind, 128, 128>(p, stream);
    case SmallTile::tall: return enqueue_shape<Kind, 128, 64>(p, stream);
    case SmallTile::little: return enqueue_shape<Kind, 64, 64>(p, stream);
    default: return enqueue_on_hopper(p, stream);
  }
}

}  // namespace

void enqueue(const SmallProduct& product, CUstream_st* stream) {
  if (product.finish.rows == 0 || product.finish.n == 0) return;
  if (product.from == SmallType::u8) return enqueue_kind<Unsigned>(product, stream);
  enqueue_kind<Signed>(product, stream);
}

}  // namespace sluice::kernels::cuda
