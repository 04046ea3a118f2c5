// Products and convolutions of bytes, with all that follows them, in one kernel, which
// multiplies on the tensor cores, 16 x 8 x 32 numbers at a time. A convolution reads its pixels
// where they lie.
//
// Limit: the tensor cores where k is large, memory where it is small. Sums are exact, so that the
// tile makes no difference to them.
#include "engine/cuda/quantized_hopper.h"
#include "engine/cuda/quantized_tile.cuh"

namespace sluice::engine::cuda {
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

// Four warps, each a quarter of the tile.
template <int kRows, int kColumns>
using Shape = SmallShape<128, kRows, kColumns, 64, 4>;

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

template <class Kind, class S>
__global__ void __launch_bounds__(S::kThreads) product(const __grid_constant__ SmallProduct p) {
  const auto [row, column] = small_place<S>(p.finish);
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
  enqueue_tiles<S>(p, product<Kind, S>, S::kShared, stream);
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
  if (product.is_unsigned) return enqueue_kind<Unsigned>(product, stream);
  enqueue_kind<Signed>(product, stream);
}

}  // namespace sluice::engine::cuda
