// The Hopper Linear kernel: persistent and warp-specialized, for sm_90a. A producer thread loads
// pipeline stages of x and W with TMA. In the pingpong tiles two consumer warpgroups take turns:
// each runs wgmma on a whole tile of 128 rows, and while it writes its results, the other has the
// tensor cores. Small tiles have one consumer and two blocks a multiprocessor, for calls with few
// rows.
//
// Limit: the tensor cores, or power: about 700 TFLOP/s. A tile of 128 x 192 reads 53 bytes a cycle
// at their full rate, and a multiprocessor takes 64; 128 x 128 would read 64. n is a multiple of
// 192 in the usual encoders. Measured on an H200 with 165,003 rows, in TFLOP/s, beside the best of
// cuBLASLt: 513 and 571 for k = 384, 578 and 577 for k = 768, 676 and 639 for k = 3072 with a
// residual. With GELU 397 for k = 384 and 535 for k = 768, where cuBLASLt with a separate GELU has
// 316 and 424: the epilogue of such a tile takes 12,500 cycles, the main loop 5,000. Clusters of
// two blocks that share W by multicast were slower throughout (1.2 to 1.9 times): their blocks wait
// for each other.
#include "base/error.h"
#include "kernels/common/launch_dependent.cuh"
#include "kernels/gemm/linear_epilogue_sm90.cuh"
#include "kernels/gemm/linear_sm90.h"
#include "kernels/gemm/pack_weights.h"
#include "kernels/ptx/tensor_map.h"

namespace sluice::kernels::cuda {
namespace {

extern __shared__ __align__(1024) unsigned char memory[];

// ---- producer --------------------------------------------------------------------------------

// Fetches W of this block's first stages into the L2 cache, while the kernels before this one still
// run: unlike x, it does not depend on them.
template <class S>
__device__ void prefetch_weights(const LinearParams& p) {
  const int column = static_cast<int>(blockIdx.x % p.across * S::kColumns);
  for (int step = 0; step < min(p.steps, S::kStages); ++step)
    tma_prefetch_2d(p.weight, step * S::kDepth, column);
}

template <class S>
__device__ void load_stage(const LinearParams& p, LinearTileCoord tile, int step, unsigned to,
                           unsigned full) {
  mbarrier_arrive_expect_tx(full, S::kStageBytes);
  tma_load_2d(to, p.x, step * S::kDepth, tile.row, full);
  tma_load_2d(to + S::kBytesA, p.weight, step * S::kDepth, tile.column, full);
}

template <class S>
__device__ void load_tiles(const LinearParams& p, const LinearTiles<S>& tiles,
                           LinearBarriers<S> barriers) {
  PipelineState pipe;
  for (unsigned tile = tiles.first; tile < tiles.count; tile += tiles.stride) {
    const LinearTileCoord coord = tiles.coord(tile);
    for (int step = 0; step < p.steps; ++step, pipe.next(S::kStages)) {
      mbarrier_wait(barriers.empty(pipe.index), pipe.phase ^ 1);
      load_stage<S>(p, coord, step,
                    shared_address(memory) + static_cast<unsigned>(pipe.index) * S::kStageBytes,
                    barriers.full(pipe.index));
    }
  }
}

// ---- consumers -------------------------------------------------------------------------------

// wgmma on a stage: sums += x * W, 16 elements along k at a time.
template <class Kind, class S>
__device__ void mma_stage(float (&sums)[S::kRowBlocks][S::kColumns / 2], unsigned stage) {
  wgmma_fence();
#pragma unroll
  for (unsigned k = 0; k < S::kDepth; k += 32)
#pragma unroll
    for (unsigned block = 0; block < S::kRowBlocks; ++block)
      Kind::mma(sums[block], swizzled_descriptor<S::kDepth>(stage + block * (64 * S::kDepth) + k),
                swizzled_descriptor<S::kDepth>(stage + S::kBytesA + k));
  wgmma_commit();
}

// The other consumer may start when all wgmma of this one are issued: the tensor cores go on.
template <class Kind, class S>
__device__ void mma_main_loop(float (&sums)[S::kRowBlocks][S::kColumns / 2], const LinearParams& p,
                              LinearBarriers<S> barriers, PipelineState& pipe, unsigned other) {
  unsigned previous = 0;
  for (int step = 0; step < p.steps; ++step, pipe.next(S::kStages)) {
    mbarrier_wait(barriers.full(pipe.index), pipe.phase);
    mma_stage<Kind, S>(sums,
                       shared_address(memory) + static_cast<unsigned>(pipe.index) * S::kStageBytes);
    wgmma_wait<1>();
    if (step > 0) mbarrier_arrive_warp(previous);
    previous = barriers.empty(pipe.index);
  }
  if (S::kConsumers == 2) mbarrier_arrive_warp(barriers.turn(other));
  wgmma_wait<0>();
  mbarrier_arrive_warp(previous);
}

template <class T, class Kind, class S>
__device__ void compute_tiles(const LinearParams& p, const LinearTiles<S>& tiles,
                              LinearBarriers<S> barriers) {
  const unsigned consumer = threadIdx.x / 128, other = consumer ^ 1;
  const unsigned first = tiles.first + consumer * tiles.stride;
  const unsigned stride = tiles.stride * S::kConsumers;
  LinearEpilogue<T, S> epilogue(p, tiles.live, memory);
  PipelineState pipe;
  pipe.advance(static_cast<int>(consumer) * p.steps, S::kStages);
  unsigned turn = other;  // the first consumer starts at once
  for (unsigned tile = first; tile < tiles.count; tile += stride, turn ^= 1) {
    epilogue.load_bias(tiles.coord(tile));
    float sums[S::kRowBlocks][S::kColumns / 2];
#pragma unroll
    for (auto& block : sums)
#pragma unroll
      for (float& sum : block) sum = 0;
    if (S::kConsumers == 2) mbarrier_wait(barriers.turn(consumer), turn);
    mma_main_loop<Kind, S>(sums, p, barriers, pipe, other);
    if (S::kConsumers == 2) pipe.advance(p.steps, S::kStages);
    epilogue.run(sums, tiles.coord(tile));
  }
}

// ---- kernel ----------------------------------------------------------------------------------

template <class T>
struct WgmmaOf;
template <>
struct WgmmaOf<__half> {
  using Kind = WgmmaF16;
};
template <>
struct WgmmaOf<__nv_bfloat16> {
  using Kind = WgmmaBf16;
};

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    linear_sm90(const __grid_constant__ LinearParams p) {
  const LinearBarriers<S> barriers{shared_address(memory + S::kBarriersAt)};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) barriers.init();
  if (thread == S::kProducerThread) {
    prefetch_tensor_map(p.x);
    prefetch_tensor_map(p.weight);
    prefetch_weights<S>(p);
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernels();
  const LinearTiles<S> tiles(p);
  if (thread < S::kProducerThread) {
    if constexpr (S::kConsumers == 2) take_registers<240>();
    compute_tiles<T, typename WgmmaOf<T>::Kind, S>(p, tiles, barriers);
  } else {
    if constexpr (S::kConsumers == 2) keep_registers<24>();
    if (thread == S::kProducerThread) load_tiles<S>(p, tiles, barriers);
  }
}

// ---- launch ----------------------------------------------------------------------------------

// Calls body.template operator()<S>() with the shape of the tile.
template <class Body>
void with_shape(LinearTile tile, const Body& body) {
  switch (tile) {
    case LinearTile::pingpong_m128n192:
      return body.template operator()<LinearShape<2, 192, 2, 4>>();
    case LinearTile::pingpong_m128n128:
      return body.template operator()<LinearShape<2, 128, 2, 6>>();
    case LinearTile::m128n64: return body.template operator()<LinearShape<2, 64, 1, 4>>();
    case LinearTile::m64n64: return body.template operator()<LinearShape<1, 64, 1, 6>>();
    case LinearTile::m64n32: return body.template operator()<LinearShape<1, 32, 1, 8>>();
  }
}

template <class S>
LinearParams params_of(const LinearCall& call) {
  const std::int64_t x_bytes = std::int64_t{call.k} * 2;
  LinearParams p{.bias = call.bias,
                 .residual = call.residual,
                 .pre_activation = call.pre_activation,
                 .y = call.y,
                 .activation = call.activation,
                 .live_rows = call.live_rows,
                 .rows = static_cast<int>(call.rows),
                 .n = call.n,
                 .steps = static_cast<int>((x_bytes + S::kDepth - 1) / S::kDepth),
                 .across = static_cast<unsigned>((call.n + S::kColumns - 1) / S::kColumns)};
  p.x = tensor_map_2d(call.x, call.rows, x_bytes, {S::kDepth, S::kRows});
  p.weight = tensor_map_2d(call.weight, call.n, x_bytes, {S::kDepth, S::kColumns});
  return p;
}

template <class T, class S>
void enqueue_shape(const LinearCall& call, cudaStream_t stream) {
  const LinearParams p = params_of<S>(call);
  const unsigned tiles = (static_cast<unsigned>(call.rows) + S::kRows - 1) / S::kRows * p.across;
  const auto resident = static_cast<unsigned>(multiprocessors() * S::kBlocksPerSm);
  launch_dependent(
      stream,
      {dim3(std::min(tiles, resident)), dim3(S::kThreads), static_cast<std::size_t>(S::kBytes)},
      call.starts_early, linear_sm90<T, S>, p);
}

template <class T>
void prepare_of() {
  for (const LinearTile tile : kLinearTiles)
    with_shape(tile, [&]<class S>() {
      device::check(cudaFuncSetAttribute(linear_sm90<T, S>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes));
    });
}

}  // namespace

bool linear_sm90_supports(const LinearCall& call) {
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 28, kMaxTiles = std::int64_t{1} << 30;
  const bool has_activation =
      call.activation == Activation::none || call.activation == Activation::relu ||
      call.activation == Activation::gelu || call.activation == Activation::gelu_tanh;
  return (call.type == RealType::f16 || call.type == RealType::bf16) && has_activation &&
         call.rows >= 0 && call.rows <= kMaxRows && call.n > 0 && call.n % 8 == 0 && call.k > 0 &&
         call.k % 8 == 0 && (call.rows / 64 + 1) * (call.n / 32 + 1) <= kMaxTiles;
}

void prepare_linear_sm90() {
  prepare_of<__half>();
  prepare_of<__nv_bfloat16>();
}

void enqueue_linear_sm90(const LinearCall& call, CUstream_st* stream) {
  if (!linear_sm90_supports(call))
    throw Error(Code::internal, "linear_sm90: the call is not supported");
  if (call.rows == 0) return;
  const LinearTile tile =
      call.tile ? *call.tile : choose_linear_tile(call.rows, call.n, call.k, multiprocessors());
  with_shape(tile, [&]<class S>() {
    if (call.type == RealType::f16) return enqueue_shape<__half, S>(call, stream);
    enqueue_shape<__nv_bfloat16, S>(call, stream);
  });
}

std::size_t packed_linear_weight_bytes(int n, int k) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * 2;
}

void enqueue_pack_linear_weights(const void* weight, void* packed, int n, int k,
                                 CUstream_st* stream) {
  enqueue_transpose(weight, packed, 1, k, n, 2, stream);
}

}  // namespace sluice::kernels::cuda
