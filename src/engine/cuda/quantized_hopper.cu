// Products of bytes on Hopper: groups of four warps multiply 64 x 64 or 64 x 128 x 32
// numbers at a time, both sides straight from shared memory, where they lie in the pattern that
// the instruction wants (rows of 128 bytes, whose parts are turned by the row).
//
// Limit: the tensor cores where k is large, memory where it is small. (Of fp8 its sums are narrower
// than f32, so that those are left to cuBLASLt.)
#include "engine/cuda/quantized_hopper.h"
#include "engine/cuda/quantized_tile.cuh"

namespace sluice::engine::cuda {
namespace {

constexpr int kGroup = 128;     // threads that multiply together
constexpr int kGroupRows = 64;  // of their sums
constexpr int kPattern = 1024;  // bytes after which it repeats; a stage begins at such

// 64 rows, or as many columns, of 128 bytes each.
__device__ unsigned long long side_at(unsigned address) {
  constexpr unsigned long long kNextRows = kPattern / 16, kTurned = 1;
  return (address & 0x3ffff) >> 4 | 1ull << 16 | kNextRows << 32 | kTurned << 62;
}

// Before sums are added to, after all of it, and until all but the last kLeft are there.
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// What was written to shared memory is there for products, too.
__device__ void show_to_products() { asm volatile("fence.proxy.async;" ::: "memory"); }

#define SLUICE_SUMS_64(kind)                                                                    \
  "+" kind(sum[0]), "+" kind(sum[1]), "+" kind(sum[2]), "+" kind(sum[3]), "+" kind(sum[4]),     \
      "+" kind(sum[5]), "+" kind(sum[6]), "+" kind(sum[7]), "+" kind(sum[8]), "+" kind(sum[9]), \
      "+" kind(sum[10]), "+" kind(sum[11]), "+" kind(sum[12]), "+" kind(sum[13]),               \
      "+" kind(sum[14]), "+" kind(sum[15]), "+" kind(sum[16]), "+" kind(sum[17]),               \
      "+" kind(sum[18]), "+" kind(sum[19]), "+" kind(sum[20]), "+" kind(sum[21]),               \
      "+" kind(sum[22]), "+" kind(sum[23]), "+" kind(sum[24]), "+" kind(sum[25]),               \
      "+" kind(sum[26]), "+" kind(sum[27]), "+" kind(sum[28]), "+" kind(sum[29]),               \
      "+" kind(sum[30]), "+" kind(sum[31])
#define SLUICE_PRODUCT_64(types, more, kind)                                              \
  asm volatile(                                                                           \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; "                                          \
      "wgmma.mma_async.sync.aligned.m64n64k32." types                                     \
      " "                                                                                 \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, " \
      "yes" more ";}"                                                                     \
      : SLUICE_SUMS_64(kind)                                                              \
      : "l"(left), "l"(right))

#define SLUICE_SUMS_128(kind)                                                                   \
  "+" kind(sum[0]), "+" kind(sum[1]), "+" kind(sum[2]), "+" kind(sum[3]), "+" kind(sum[4]),     \
      "+" kind(sum[5]), "+" kind(sum[6]), "+" kind(sum[7]), "+" kind(sum[8]), "+" kind(sum[9]), \
      "+" kind(sum[10]), "+" kind(sum[11]), "+" kind(sum[12]), "+" kind(sum[13]),               \
      "+" kind(sum[14]), "+" kind(sum[15]), "+" kind(sum[16]), "+" kind(sum[17]),               \
      "+" kind(sum[18]), "+" kind(sum[19]), "+" kind(sum[20]), "+" kind(sum[21]),               \
      "+" kind(sum[22]), "+" kind(sum[23]), "+" kind(sum[24]), "+" kind(sum[25]),               \
      "+" kind(sum[26]), "+" kind(sum[27]), "+" kind(sum[28]), "+" kind(sum[29]),               \
      "+" kind(sum[30]), "+" kind(sum[31]), "+" kind(sum[32]), "+" kind(sum[33]),               \
      "+" kind(sum[34]), "+" kind(sum[35]), "+" kind(sum[36]), "+" kind(sum[37]),               \
      "+" kind(sum[38]), "+" kind(sum[39]), "+" kind(sum[40]), "+" kind(sum[41]),               \
      "+" kind(sum[42]), "+" kind(sum[43]), "+" kind(sum[44]), "+" kind(sum[45]),               \
      "+" kind(sum[46]), "+" kind(sum[47]), "+" kind(sum[48]), "+" kind(sum[49]),               \
      "+" kind(sum[50]), "+" kind(sum[51]), "+" kind(sum[52]), "+" kind(sum[53]),               \
      "+" kind(sum[54]), "+" kind(sum[55]), "+" kind(sum[56]), "+" kind(sum[57]),               \
      "+" kind(sum[58]), "+" kind(sum[59]), "+" kind(sum[60]), "+" kind(sum[61]),               \
      "+" kind(sum[62]), "+" kind(sum[63])
#define SLUICE_PRODUCT_128(types, more, kind)                                             \
  asm volatile(                                                                           \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0; "                                          \
      "wgmma.mma_async.sync.aligned.m64n128k32." types                                    \
      " "                                                                                 \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "  \
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "  \
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, " \
      "yes" more ";}"                                                                     \
      : SLUICE_SUMS_128(kind)                                                             \
      : "l"(left), "l"(right))

using Side = unsigned long long;
struct Unsigned {
  using Sum = int;
  __device__ static void add(int (&sum)[32], Side left, Side right) {
    SLUICE_PRODUCT_64("s32.u8.s8", "", "r");
  }
  __device__ static void add(int (&sum)[64], Side left, Side right) {
    SLUICE_PRODUCT_128("s32.u8.s8", "", "r");
  }
};
struct Signed {
  using Sum = int;
  __device__ static void add(int (&sum)[32], Side left, Side right) {
    SLUICE_PRODUCT_64("s32.s8.s8", "", "r");
  }
  __device__ static void add(int (&sum)[64], Side left, Side right) {
    SLUICE_PRODUCT_128("s32.s8.s8", "", "r");
  }
};
// Two groups, one below the other.
template <int kColumns, int kStages>
using Shape = SmallShape<2 * kGroup, 2 * kGroupRows, kColumns, 128, kStages>;

// A group's sums, in pieces as wide as one product.
template <class Kind, class S>
struct GroupSums {
  static constexpr int kWide = std::min(S::kColumns, 128), kPieces = S::kColumns / kWide;
  using Sum = typename Kind::Sum;
  Sum at[kPieces][kWide / 2] = {};

  // Both sides as they lie in a stage; `left` where the group's rows begin.
  __device__ void add(unsigned left, unsigned right) {
    begin_products();
#pragma unroll
    for (int k = 0; k < S::kDepth; k += 32)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        Kind::add(at[piece], side_at(left + k), side_at(right + piece * kWide * S::kDepth + k));
    end_products();
  }

  __device__ void store(Sum* to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    to += (static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4) * S::kSumRow + lane % 4 * 2;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int j = 0; j < kWide / 8; ++j) {
        Sum* const first = to + piece * kWide + j * 8;
        const Sum* const x = at[piece] + 4 * j;
        *reinterpret_cast<Pack<Sum, 2>*>(first) = {x[0], x[1]};
        *reinterpret_cast<Pack<Sum, 2>*>(first + 8 * S::kSumRow) = {x[2], x[3]};
      }
  }
};

template <class Kind, class S, int kBlocks>
__global__ void __launch_bounds__(S::kThreads, kBlocks)
    hopper_product(const __grid_constant__ SmallProduct p) {
  const auto [row, column] = small_place<S>(p.finish);
  const unsigned begin = shared_address(shared_bytes);
  const unsigned shared = (begin + kPattern - 1) / kPattern * kPattern;
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
  for (int step = 0; step < S::kStages - 2; ++step) fetch(step);
  GroupSums<Kind, S> sums;
  const unsigned own = threadIdx.x / kGroup * kGroupRows * S::kDepth;
  for (int step = 0; step < steps; ++step) {
    await_copies<S::kStages - 3>();
    show_to_products();
    __syncthreads();
    const unsigned stage = shared + static_cast<unsigned>(step % S::kStages * S::kStage);
    sums.add(stage + own, stage + S::kRows * S::kDepth);
    fetch(step + S::kStages - 2);  // over a stage whose products all have seen end
    await_products<1>();
  }
  await_products<0>();
  await_copies<0>();
  __syncthreads();
  auto* const kept = reinterpret_cast<typename Kind::Sum*>(shared_bytes + (shared - begin));
  sums.store(kept);
  __syncthreads();
  finish_tile<S>(p.finish, kept, row, column);
}

template <class Kind, int kColumns, int kStages, int kBlocks>
void enqueue_shape(const SmallProduct& p, cudaStream_t stream) {
  using S = Shape<kColumns, kStages>;
  enqueue_tiles<S>(p, hopper_product<Kind, S, kBlocks>, S::kShared + kPattern, stream);
}

template <class Kind>
void enqueue_kind(const SmallProduct& p, cudaStream_t stream) {
  switch (p.tile) {
    case SmallTile::hopper_narrow: return enqueue_shape<Kind, 64, 4, 2>(p, stream);
    case SmallTile::hopper_wide: return enqueue_shape<Kind, 256, 4, 1>(p, stream);
    default: return enqueue_shape<Kind, 128, 3, 2>(p, stream);
  }
}

}  // namespace

void enqueue_on_hopper(const SmallProduct& product, CUstream_st* stream) {
  if (product.is_unsigned) return enqueue_kind<Unsigned>(product, stream);
  enqueue_kind<Signed>(product, stream);
}

}  // namespace sluice::engine::cuda
