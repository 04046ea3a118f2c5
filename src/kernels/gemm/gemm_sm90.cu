// The Hopper GEMM: persistent, warp-specialized, for sm_90a, of int8 or of 16-bit floats. The
// producer warp loads pipeline stages of A and B with TMA, in im2col mode for convolutions. Two
// consumer warpgroups run wgmma on them, 64 x 64 or 64 x 128 accumulators of 32 bits each, and
// write the results of the epilogue to a buffer in shared memory, into which the residual was
// loaded before. The store warp loads residuals ahead and stores results with TMA. The epilogue of
// a tile overlaps the loads of the next one, and no thread computes global addresses.
//
// Limit: memory where k is small; where it is large the tensor cores, which the L2 cache feeds at
// about half of their rate. Measured on an H200: 3.1 of 4.5 TB/s, 1,060 of 1,979 TOPS. A tile of
// 128 x 256 needs less L2 bandwidth, but a single resident block does not hide its epilogue, and it
// was slower throughout. wgmma accumulates fp8 in fewer bits than f32, so fp8 is left to cuBLASLt.
#include "kernels/common/launch.cuh"
#include "kernels/gemm/epilogue_sm90.cuh"
#include "kernels/gemm/gemm_sm90.h"
#include "kernels/gemm/pipeline_sm90.cuh"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

// ---- wgmma ---------------------------------------------------------------------------------

template <class Kind, class S>
struct Accumulators {
  using Sum = typename Kind::Sum;
  Sum at[S::kColumns / 2];

  // A and B of a stage, as shared memory addresses; `a` is where the rows of the warpgroup begin.
  __device__ void mma(unsigned a, unsigned b) {
    wgmma_fence();
#pragma unroll
    for (unsigned k = 0; k < S::kDepth; k += 32)
      Kind::mma(at, swizzled_descriptor<S::kDepth>(a + k), swizzled_descriptor<S::kDepth>(b + k));
    wgmma_commit();
  }

  __device__ void clear() {
#pragma unroll
    for (Sum& sum : at) sum = 0;
  }
};

// ---- parameters --------------------------------------------------------------------------------

extern __shared__ __align__(kSwizzleAlignment) unsigned char memory[];

struct GemmSm90Params {
  CUtensorMap a, b, residual, result;
  Im2col rows;
  GemmEpilogue epilogue;
  SaturatingEpilogue saturating_epilogue;
  const ScaleBias* scale_bias;
  bool is_im2col;  // A is loaded by an im2col tensor map; else by a 2D one
  int steps;       // of kDepth bytes along k
  unsigned tiles;
  SharedLayout layout;
};

__device__ unsigned stage_at(const SharedLayout& layout, int stage) {
  return shared_address(memory) + static_cast<unsigned>(stage * layout.stage_bytes);
}
__device__ unsigned char* buffer_at(const SharedLayout& layout, int buffer) {
  return memory + layout.stages * layout.stage_bytes + buffer * layout.buffer_bytes;
}
// The resident B of a step along k.
template <class S>
__device__ unsigned resident_b_at(const SharedLayout& layout, int step) {
  return shared_address(memory) + static_cast<unsigned>(layout.resident_b + step * S::kBytesB);
}

// ---- producer: the load warp ---------------------------------------------------------------

// Loads A and B of a tile, kDepth bytes at a time: all channels of one kernel position, then the
// next.
template <class S>
class OperandLoader {
 public:
  __device__ OperandLoader(const GemmSm90Params& p, TileCoord tile) : p_(p), tile_(tile) {
    if (!p.is_im2col) return;
    const Im2col& r = p.rows;
    const auto wide = static_cast<unsigned>(r.out_width), row = static_cast<unsigned>(tile.row);
    const unsigned pixels = static_cast<unsigned>(r.out_height) * wide, pixel = row % pixels;
    window_.n = static_cast<int>(row / pixels);
    window_.h = static_cast<int>(pixel / wide) * r.stride_y - r.pad_top;
    window_.w = static_cast<int>(pixel % wide) * r.stride_x - r.pad_left;
  }

  __device__ void load_a(unsigned to, unsigned barrier) const {
    if (p_.is_im2col)
      tma_load_im2col(to, p_.a, channel_, window_, barrier);
    else
      tma_load_2d(to, p_.a, channel_, tile_.row, barrier);
  }
  __device__ void load_b(unsigned to, unsigned barrier) const {
    tma_load_2d(to, p_.b, first_ + channel_, tile_.column, barrier);
  }

  // Advances one step along k.
  __device__ void next() {
    const Im2col& r = p_.rows;
    if ((channel_ += S::kDepth) < r.channels) return;
    channel_ = 0, first_ += r.channels;
    window_.offset_w += r.dilation_x;
    if (window_.offset_w < r.kernel_width * r.dilation_x) return;
    window_.offset_w = 0, window_.offset_h += r.dilation_y;
  }

 private:
  const GemmSm90Params& p_;
  const TileCoord tile_;
  Im2colCoord window_{};
  int first_ = 0, channel_ = 0;  // of the kernel position in a row of B; of the channel in it
};

// Loads B once for all tiles, which use the same columns.
template <class S>
__device__ void load_b(const GemmSm90Params& p, Barriers barriers) {
  OperandLoader<S> operands(p, {});
  mbarrier_arrive_expect_tx(barriers.resident_b(),
                            static_cast<unsigned>(p.layout.resident_b_bytes));
  for (int step = 0; step < p.steps; ++step, operands.next())
    operands.load_b(resident_b_at<S>(p.layout, step), barriers.resident_b());
}

template <class S>
__device__ void load_tiles(const GemmSm90Params& p, Barriers barriers) {
  const bool b_is_resident = p.layout.resident_b > 0;
  if (b_is_resident) load_b<S>(p, barriers);
  PipelineState pipe;
  for (unsigned tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    OperandLoader<S> operands(p, tile_coord<S>(p.epilogue, tile));
    for (int step = 0; step < p.steps; ++step, pipe.next(p.layout.stages), operands.next()) {
      const unsigned to = stage_at(p.layout, pipe.index), full = barriers.full(pipe.index);
      mbarrier_wait(barriers.empty(pipe.index), pipe.phase ^ 1);
      mbarrier_arrive_expect_tx(full, static_cast<unsigned>(p.layout.stage_bytes));
      operands.load_a(to, full);
      if (!b_is_resident) operands.load_b(to + S::kBytesA, full);
    }
  }
}

// ---- the store warp -----------------------------------------------------------------------

// Calls body(byte in a row, offset in the buffer) for each strip of 128 bytes: the swizzle is no
// wider.
template <class S, class Body>
__device__ void each_swizzled_strip(int element, const Body& body) {
  const int wide = S::kColumns * element;
  for (int byte = 0; byte < wide; byte += 128) body(byte, static_cast<unsigned>(byte * S::kRows));
}

// Loads the residual of a tile, if there is one, and signals that the buffer is free.
template <class S>
__device__ void prepare_buffer(const GemmSm90Params& p, Barriers barriers, int buffer,
                               unsigned index) {
  if (index >= p.tiles) return;
  if (p.epilogue.residual_type == GemmType::none)
    return mbarrier_arrive(barriers.residual_full(buffer));
  const TileCoord tile = tile_coord<S>(p.epilogue, index);
  const int element = element_bytes(p.epilogue.residual_type);
  const unsigned to = shared_address(buffer_at(p.layout, buffer) + p.layout.residual);
  mbarrier_arrive_expect_tx(barriers.residual_full(buffer),
                            static_cast<unsigned>(S::kRows * S::kColumns * element));
  each_swizzled_strip<S>(element, [&](int byte, unsigned at) {
    tma_load_2d(to + at, p.residual, tile.column * element + byte, tile.row,
                barriers.residual_full(buffer));
  });
}

template <class S>
__device__ void store_tiles(const GemmSm90Params& p, Barriers barriers) {
  const int buffers = p.layout.buffers, element = element_bytes(p.epilogue.to);
  for (int buffer = 0; buffer < buffers; ++buffer)
    prepare_buffer<S>(p, barriers, buffer, blockIdx.x + static_cast<unsigned>(buffer) * gridDim.x);
  PipelineState pipe;
  for (unsigned i = blockIdx.x; i < p.tiles; i += gridDim.x, pipe.next(buffers)) {
    mbarrier_wait(barriers.result_full(pipe.index), pipe.phase);
    const TileCoord tile = tile_coord<S>(p.epilogue, i);
    each_swizzled_strip<S>(element, [&](int byte, unsigned at) {
      tma_store_2d(p.result, tile.column * element + byte, tile.row,
                   shared_address(buffer_at(p.layout, pipe.index)) + at);
    });
    tma_store_wait();
    prepare_buffer<S>(p, barriers, pipe.index, i + static_cast<unsigned>(buffers) * gridDim.x);
  }
}

// ---- consumers: the wgmma warpgroups ----------------------------------------------------------

template <class Kind, class S>
__device__ void mma_main_loop(Accumulators<Kind, S>& sums, const GemmSm90Params& p, unsigned group,
                              Barriers barriers, PipelineState& pipe) {
  sums.clear();
  unsigned previous = 0;
  for (int step = 0; step < p.steps; ++step, pipe.next(p.layout.stages)) {
    mbarrier_wait(barriers.full(pipe.index), pipe.phase);
    const unsigned a = stage_at(p.layout, pipe.index);
    sums.mma(a + group * S::kWarpgroupRows * S::kDepth,
             p.layout.resident_b > 0 ? resident_b_at<S>(p.layout, step) : a + S::kBytesA);
    wgmma_wait<1>();
    if (step > 0) mbarrier_arrive_warp(previous);
    previous = barriers.empty(pipe.index);
  }
  wgmma_wait<0>();
  mbarrier_arrive_warp(previous);
}

template <class Kind, class S>
__device__ void mma_tiles(const GemmSm90Params& p, Barriers barriers) {
  const unsigned group = threadIdx.x / kWarpgroupThreads;
  PipelineState pipe, buffers;
  if (p.layout.resident_b > 0) mbarrier_wait(barriers.resident_b(), 0);
  for (unsigned tile = blockIdx.x; tile < p.tiles;
       tile += gridDim.x, buffers.next(p.layout.buffers)) {
    Accumulators<Kind, S> sums;
    mma_main_loop(sums, p, group, barriers, pipe);
    mbarrier_wait(barriers.residual_full(buffers.index), buffers.phase);
    unsigned char* const buffer = buffer_at(p.layout, buffers.index);
    warpgroup_epilogue<S>(
        {p.epilogue, p.saturating_epilogue, p.scale_bias + tile_coord<S>(p.epilogue, tile).column,
         buffer + p.layout.residual, buffer},
        group * S::kWarpgroupRows, sums.at);
    fence_proxy_async();
    mbarrier_arrive_warp(barriers.result_full(buffers.index));
  }
}

template <class Kind, class S>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    gemm_sm90(const __grid_constant__ GemmSm90Params p) {
  const Barriers barriers{shared_address(memory + p.layout.barriers)};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) barriers.init();
  __syncthreads();
  if (thread < kProducerThread)
    mma_tiles<Kind, S>(p, barriers);
  else if (thread == kProducerThread)
    load_tiles<S>(p, barriers);
  else if (thread == kStoreThread)
    store_tiles<S>(p, barriers);
}

// ---- launch --------------------------------------------------------------------------------

template <class S>
int k_steps(const Im2col& r) {
  return r.kernel_height * r.kernel_width * ((r.channels + S::kDepth - 1) / S::kDepth);
}

template <class S>
GemmSm90Params params_of(const TileGemmCall& p) {
  const Im2col& r = p.rows;
  const GemmEpilogue& f = p.epilogue;
  const auto tensor_map_of = [&](const void* x, GemmType type) {
    const int wide = std::min(128, S::kColumns * bytes_of(type));
    return tensor_map_2d(x, f.rows, std::int64_t{f.n} * bytes_of(type), {wide, S::kRows});
  };
  GemmSm90Params all{.rows = r,
                     .epilogue = f,
                     .saturating_epilogue = saturating_epilogue(f),
                     .scale_bias = p.scale_bias,
                     .is_im2col = !is_pointwise(r),
                     .steps = k_steps<S>(r),
                     .tiles = tile_count<S>(f),
                     .layout = shared_layout<S>(f, k_steps<S>(r))};
  const BoxShape a_box{S::kDepth, S::kRows};
  all.a = all.is_im2col
              ? tensor_map_im2col(r, f.rows / (std::int64_t{r.out_height} * r.out_width), a_box)
              : tensor_map_2d(r.x, f.rows, r.channels, a_box);
  all.b = tensor_map_2d(p.weight, (f.n + 15) / 16 * 16, r.row_bytes, {S::kDepth, S::kColumns});
  all.result = tensor_map_of(f.y, f.to);
  if (f.residual_type != GemmType::none) all.residual = tensor_map_of(f.residual, f.residual_type);
  return all;
}

template <class Kind, class S>
void enqueue_shape(const TileGemmCall& p, cudaStream_t stream) {
  const auto kernel = gemm_sm90<Kind, S>;
  const GemmSm90Params all = params_of<S>(p);
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const unsigned blocks =
      std::min(all.tiles, static_cast<unsigned>(kBlocksPerSm * multiprocessors()));
  launch(stream, {dim3(blocks), dim3(kThreads), static_cast<std::size_t>(all.layout.bytes)}, kernel,
         all);
}

// Calls body.template operator()<S>() with the shape of the tile. Stages are 64 bytes deep where
// half of 128 would be empty.
template <class Body>
auto with_shape(const TileGemmCall& p, const Body& body) {
  const auto with_columns = [&]<int kColumns>() {
    const int left_over = p.rows.channels % 128;
    if (left_over > 0 && left_over <= 64) return body.template operator()<Shape<kColumns, 64>>();
    return body.template operator()<Shape<kColumns, 128>>();
  };
  switch (p.tile) {
    case GemmTile::sm90_m128n64: return with_columns.template operator()<64>();
    default: return with_columns.template operator()<128>();
  }
}

}  // namespace

bool gemm_sm90_supports(const TileGemmCall& p) {
  const GemmEpilogue& f = p.epilogue;
  const bool supported = f.activation == Activation::none || f.activation == Activation::relu ||
                         f.activation == Activation::clip ||
                         (f.activation == Activation::gelu && f.to != GemmType::f32);
  const auto is_aligned = [&](GemmType type) { return f.n * bytes_of(type) % 16 == 0; };
  return supported && !f.has_large_compensation && f.to != GemmType::f8e4m3 && is_aligned(f.to) &&
         (f.residual_type == GemmType::none || is_aligned(f.residual_type)) &&
         (is_pointwise(p.rows) || im2col_map_supports(p.rows)) &&
         with_shape(p, [&]<class S>() { return shared_layout<S>(f, k_steps<S>(p.rows)).stages; }) >
             1;
}

void enqueue_gemm_sm90(const TileGemmCall& p, CUstream_st* stream) {
  with_shape(p, [&]<class S>() {
    switch (p.from) {
      case GemmType::u8: return enqueue_shape<WgmmaU8S8, S>(p, stream);
      case GemmType::f16: return enqueue_shape<WgmmaF16, S>(p, stream);
      case GemmType::bf16: return enqueue_shape<WgmmaBf16, S>(p, stream);
      default: return enqueue_shape<WgmmaS8S8, S>(p, stream);
    }
  });
}

}  // namespace sluice::kernels::cuda
