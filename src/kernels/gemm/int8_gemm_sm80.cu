// An int8 GEMM, or a convolution as an implicit GEMM, with its epilogue in one kernel, for compute
// capability 8.0 and up: cp.async pipeline, ldmatrix, mma.m16n8k32. A convolution reads its pixels
// from x itself. Each block computes one output tile.
//
// Limit: the tensor cores where k is large, memory where it is small. Accumulators are exact int32,
// so all tile shapes give the same bits.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/gemm_sm90.h"
#include "kernels/gemm/tile_order.cuh"
#include "kernels/ptx/mma.cuh"

namespace sluice::kernels::cuda {
namespace {

// sum += a * b, for a of 16 x 32 and b of 32 x 8.
#if __CUDA_ARCH__ >= 800
#define SLUICE_MMA(types, kind)                                                \
  asm("mma.sync.aligned.m16n8k32.row.col." types                               \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
      : "+" kind(sum[0]), "+" kind(sum[1]), "+" kind(sum[2]), "+" kind(sum[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else  // never launched on such a GPU
#define SLUICE_MMA(types, kind) __trap()
#endif
struct MmaU8S8 {
  using Sum = int;
  __device__ static void mma(int (&sum)[4], const unsigned (&a)[4], const unsigned* b) {
    SLUICE_MMA("s32.u8.s8.s32", "r");
  }
};
struct MmaS8S8 {
  using Sum = int;
  __device__ static void mma(int (&sum)[4], const unsigned (&a)[4], const unsigned* b) {
    SLUICE_MMA("s32.s8.s8.s32", "r");
  }
};
#undef SLUICE_MMA

// An output tile of kRows x kColumns, loaded by kThreads threads, kDepth bytes along k in a stage.
template <int kThreadsOf, int kRowsOf, int kColumnsOf, int kDepthOf>
struct StageShape {
  static constexpr int kThreads = kThreadsOf, kRows = kRowsOf, kColumns = kColumnsOf;
  static constexpr int kDepth = kDepthOf;
  static constexpr int kChunks = kDepth / 16;             // 16 bytes each, of a row
  static constexpr int kRowsAtOnce = kThreads / kChunks;  // rows that all threads load at once
  static constexpr int kStage = (kRows + kColumns) * kDepth;
  static constexpr unsigned kNextRow =
      kRowsAtOnce * kDepth;             // from a row of a thread to its next row
  static_assert(kRowsAtOnce % 8 == 0);  // so that a thread's rows have the same swizzle

  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) % kThreads / kChunks; }
  // Offset of a chunk in a stage, swizzled so that ldmatrix has no bank conflicts.
  __device__ static unsigned swizzled_offset(int row, int chunk) {
    const int swizzle = kDepth == 64 ? row / 2 % 4 : row % 8;
    return static_cast<unsigned>(row * kDepth + (chunk ^ swizzle) * 16);
  }
};

// Loads A, the im2col rows: a thread copies one chunk of every kRowsAtOnce-th row.
template <class S>
class Im2colLoader {
 public:
  __device__ Im2colLoader(const Im2col& r, long long first, long long end) : r_(r) {
    const int pixels = r.out_height * r.out_width;
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      const long long row = first + S::row() + i * S::kRowsAtOnce;
      const int image = static_cast<int>(row) / pixels, pixel = static_cast<int>(row) % pixels;
      const int y = pixel / r.out_width * r.stride_y - r.pad_top;
      x_[i] = pixel % r.out_width * r.stride_x - r.pad_left;
      y_[i] = row < end ? y : kOutside;
      pixel_[i] = (image * r.height + y) * r.width + x_[i];
    }
    advance(S::chunk() * 16);
  }

  // Copies the next kDepth bytes along k to the stage at `to`.
  __device__ void load(unsigned to) {
    const bool is_window = kernel_y_ < r_.kernel_height;
    const int down = kernel_y_ * r_.dilation_y, across = kernel_x_ * r_.dilation_x;
    const int further = down * r_.width + across;
    const auto* const from = static_cast<const unsigned char*>(r_.x) + channel_;
    to += S::swizzled_offset(S::row(), S::chunk());
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i, to += S::kNextRow) {
      const bool is_inside =
          is_window && within(y_[i] + down, r_.height) && within(x_[i] + across, r_.width);
      const long long pixel = pixel_[i] + further;
      if (is_window && !is_inside && r_.pad_value != 0)
        store_pad_value(to);
      else
        cp_async_16(to, is_inside ? from + pixel * r_.pixel_stride : r_.x, is_inside);
    }
    advance(S::kDepth);
  }

 private:
  static constexpr int kOwnRows = S::kRows / S::kRowsAtOnce;
  static constexpr int kOutside = -(1 << 30);  // y of rows beyond the last

  __device__ static bool within(int at, int size) {
    return static_cast<unsigned>(at) < static_cast<unsigned>(size);
  }

  __device__ void advance(int bytes) {
    for (channel_ += bytes; channel_ >= r_.channels && kernel_y_ < r_.kernel_height;) {
      channel_ -= r_.channels;
      if (++kernel_x_ == r_.kernel_width) kernel_x_ = 0, ++kernel_y_;
    }
  }

  __device__ void store_pad_value(unsigned at) const {
    const unsigned four = r_.pad_value * 0x01010101u;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(four) : "memory");
  }

  const Im2col& r_;
  int pixel_[kOwnRows], y_[kOwnRows], x_[kOwnRows];  // the first pixel of the window
  int kernel_y_ = 0, kernel_x_ = 0, channel_ = 0;
};

// Loads kDepth bytes of B from byte `at` on; columns lie as rows of `size` bytes.
template <class S>
__device__ void load_b(unsigned to, const unsigned char* from, int first, int n, int at, int size) {
  const int byte = at + S::chunk() * 16, end = byte < size ? n : 0;
  const auto* next = from + static_cast<long long>(first + S::row()) * size + byte;
  to += S::swizzled_offset(S::row(), S::chunk());
#pragma unroll 4
  for (int row = first + S::row(); row < first + S::kColumns; row += S::kRowsAtOnce) {
    cp_async_16(to, row < end ? next : from, row < end);
    next += static_cast<long long>(S::kRowsAtOnce) * size;
    to += S::kNextRow;
  }
}

// Four warps, each with a quarter of the tile.
template <int kRows, int kColumns>
struct Shape : StageShape<128, kRows, kColumns, 64> {
  static constexpr int kStages = 4;
  static constexpr int kSumRow = kColumns + 8;  // padded against bank conflicts
  static constexpr int kShared = std::max(kStages * Shape::kStage, kRows* kSumRow * 4);
};

// The accumulators of a warp.
template <class Kind, class S>
struct WarpAccumulators {
  static constexpr int kDown = S::kRows / 2 / 16, kAcross = S::kColumns / 2 / 8;
  using Sum = typename Kind::Sum;
  Sum at[kDown][kAcross][4] = {};
  int row, column;  // where the warp begins in the tile

  __device__ WarpAccumulators()
      : row(static_cast<int>(threadIdx.x) / 32 / 2 * (S::kRows / 2)),
        column(static_cast<int>(threadIdx.x) / 32 % 2 * (S::kColumns / 2)) {}

  __device__ void mma(unsigned a, unsigned b) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int chunk = 0; chunk < S::kChunks; chunk += 2) {
      unsigned l[kDown][4], r[kAcross / 2][4];
#pragma unroll
      for (int i = 0; i < kDown; ++i)
        ldmatrix_x4(l[i], a + S::swizzled_offset(row + i * 16 + lane % 16, chunk + lane / 16));
#pragma unroll
      for (int j = 0; j < kAcross / 2; ++j)
        ldmatrix_x4(r[j], b + S::swizzled_offset(column + j * 16 + lane / 16 * 8 + lane % 8,
                                                 chunk + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kDown; ++i)
#pragma unroll
        for (int j = 0; j < kAcross; ++j) Kind::mma(at[i][j], l[i], &r[j / 2][j % 2 * 2]);
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

// The epilogue of a tile whose accumulators are in shared memory; each thread finishes N columns.
template <class S, int N, class Sum>
__device__ void tile_epilogue(const GemmEpilogue& f, const Sum* sums, long long row, int column) {
  constexpr int kAcross = S::kColumns / N, kDown = S::kThreads / kAcross;
  constexpr int kTogether = 8;  // rows whose residuals are loaded at once
  const int own = static_cast<int>(threadIdx.x) % kAcross * N;
  if (column + own >= f.n) return;
  const ColumnParams<Sum, N> columns(f, column + own);
  const int end = static_cast<int>(min(static_cast<long long>(S::kRows), f.rows - row));
  for (int i = static_cast<int>(threadIdx.x) / kAcross; i < end; i += kDown * kTogether) {
    PackedValues<N, kTogether> packs{.at = ((row + i) * f.n + column + own) / N,
                                     .step = static_cast<long long>(kDown) * f.n / N,
                                     .count = min(kTogether, (end - i + kDown - 1) / kDown)};
    columns.apply(f, packs, [&](int k) {
      return *reinterpret_cast<const Pack<Sum, N>*>(sums + (i + k * kDown) * S::kSumRow + own);
    });
  }
}

template <class S, class Sum>
__device__ void tile_epilogue(const GemmEpilogue& f, const Sum* sums, long long row, int column) {
  if (f.n % 4 == 0) return tile_epilogue<S, 4>(f, sums, row, column);
  tile_epilogue<S, 1>(f, sums, row, column);
}

template <class Kind, class S>
__global__ void __launch_bounds__(S::kThreads)
    int8_gemm_sm80(const __grid_constant__ TileGemmCall p) {
  const auto [row, column] = tile_coord<S>(p.epilogue, blockIdx.x);
  const unsigned shared = shared_address(shared_bytes);
  const auto size = static_cast<int>(p.rows.row_bytes);
  const int steps = (size + S::kDepth - 1) / S::kDepth;
  Im2colLoader<S> a(p.rows, row, p.epilogue.rows);
  const auto load_stage = [&, column = column](int step) {
    if (step < steps) {
      const unsigned to = shared + static_cast<unsigned>(step % S::kStages * S::kStage);
      a.load(to);
      load_b<S>(to + S::kRows * S::kDepth, static_cast<const unsigned char*>(p.weight), column,
                p.epilogue.n, step * S::kDepth, size);
    }
    cp_async_commit();  // commits an empty group too, so that waits can count groups
  };
  for (int step = 0; step < S::kStages - 1; ++step) load_stage(step);
  WarpAccumulators<Kind, S> sums;
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<S::kStages - 2>();
    __syncthreads();
    load_stage(step + S::kStages - 1);
    const unsigned stage = shared + static_cast<unsigned>(step % S::kStages * S::kStage);
    sums.mma(stage, stage + S::kRows * S::kDepth);
  }
  cp_async_wait<0>();
  __syncthreads();
  auto* const staged = reinterpret_cast<typename Kind::Sum*>(shared_bytes);
  sums.store(staged);
  __syncthreads();
  tile_epilogue<S>(p.epilogue, staged, row, column);
}

template <class Kind, int kRows, int kColumns>
void enqueue_shape(const TileGemmCall& p, cudaStream_t stream) {
  using S = Shape<kRows, kColumns>;
  const auto kernel = int8_gemm_sm80<Kind, S>;
  device::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared));
  launch(stream, {dim3(tile_count<S>(p.epilogue)), dim3(S::kThreads), S::kShared}, kernel, p);
}

template <class Kind>
void enqueue_kind(const TileGemmCall& p, cudaStream_t stream) {
  switch (p.tile) {
    case GemmTile::m128n128: return enqueue_shape<Kind, 128, 128>(p, stream);
    case GemmTile::m128n64: return enqueue_shape<Kind, 128, 64>(p, stream);
    case GemmTile::m64n64: return enqueue_shape<Kind, 64, 64>(p, stream);
    default: return enqueue_gemm_sm90(p, stream);
  }
}

}  // namespace

void enqueue_tile_gemm(const TileGemmCall& call, CUstream_st* stream) {
  if (call.epilogue.rows == 0 || call.epilogue.n == 0) return;
  if (call.from == GemmType::u8) return enqueue_kind<MmaU8S8>(call, stream);
  enqueue_kind<MmaS8S8>(call, stream);
}

}  // namespace sluice::kernels::cuda
