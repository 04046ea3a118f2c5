// Convolution over few channels with wgmma, as an implicit GEMM whose B operand is read from the
// image rows in shared memory. A pixel pair, two neighbouring pixels of up to four channels, is 16
// bytes: one core matrix row of eight 16-bit values. The B descriptor's leading byte offset is one
// pixel pair, so the columns of B, which are windows, overlap in shared memory as they do in the
// image: there is no im2col copy. Filters are A. A producer warpgroup expands row tiles, whose
// lines are copied by cp.async.bulk; two consumer warpgroups run wgmma in a fixed order, so that
// one stores while the other multiplies.
//
// Limit: memory, which reads the image and writes the results: 57 us for the first convolution of
// ResNet-50 at batch 128. The tensor cores take 49 us (56 cycles for 64 filters, 112 pixels and two
// pixel pairs). Measured: 109 us, 52 %. wgmma alone takes 69 us; the epilogue and the stores are
// not fully hidden behind it.
#include "kernels/common/activation.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kFilters = 64, kPixels = 112;  // of an output tile
constexpr int kSums = kFilters * kPixels / 128;
constexpr int kConsumers = 2, kWarpgroupThreads = 128,
              kThreads = (kConsumers + 1) * kWarpgroupThreads;
constexpr int kStages = 2;  // row tiles in flight
constexpr unsigned kPairBytes = 16,
                   kFilterPairBytes = kFilters * kPairBytes;  // one k pair of all filters
constexpr unsigned kPixelPitch =
    kFilters * 2 + 16;  // of a staged output tile, padded against bank conflicts
constexpr unsigned kTile = kPixels * kPixelPitch;
constexpr unsigned kMaxShared = 224 << 10;

// How images are split into row tiles.
struct RowTiling {
  ConvCall call;
  int rows = 1;          // output rows of a row tile
  int row_tiles = 1;     // row tiles of an image
  int line_pairs = 0;    // pixel pairs of a line
  int k_pairs = 1;       // k steps of two pixel pairs in a row of the kernel
  int column_tiles = 1;  // output tiles of an output row

  __host__ __device__ unsigned weights() const {
    return static_cast<unsigned>(call.window.rows * k_pairs) * 2 * kFilterPairBytes;
  }
  __host__ __device__ int lines(
      int result_rows) const {  // image lines that so many output rows read
    return (result_rows - 1) * call.window.stride_y + call.window.rows;
  }
  __host__ __device__ unsigned bytes(int result_rows) const {  // of a row tile
    return static_cast<unsigned>(lines(result_rows) * line_pairs) * kPairBytes;
  }
  __host__ __device__ unsigned line() const {  // bytes of an image line
    return static_cast<unsigned>(call.window.width * call.in) * 2;
  }
  __host__ __device__ unsigned raw(
      int result_rows) const {  // bytes of the lines before they are expanded
    return static_cast<unsigned>(lines(result_rows)) * line();
  }
  unsigned shared(int result_rows) const {
    return weights() + kStages * (bytes(result_rows) + raw(result_rows)) + kConsumers * kTile;
  }
};

// A wgmma descriptor without swizzle: the leading byte offset between core matrices along k, and
// the stride byte offset between groups of eight rows.
__device__ MatrixDescriptor descriptor(unsigned at, unsigned leading, unsigned stride) {
  return (at & 0x3ffff) >> 4 | MatrixDescriptor{leading >> 4} << 16 |
         MatrixDescriptor{stride >> 4} << 32;
}

__device__ void named_barrier_sync(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kWarpgroupThreads) : "memory");
}

// ---- producer: expands row tiles ---------------------------------------------------------------

// The image lines that a row tile is made of.
struct ImageLines {
  int image, first, begin, end;  // first may be in the padding; [begin, end) is inside

  __device__ ImageLines(const RowTiling& b, int item) : image(item / b.row_tiles) {
    const SlidingWindow& w = b.call.window;
    first = item % b.row_tiles * b.rows * w.stride_y - w.top;
    begin = max(first, 0);
    end = min(first + b.lines(b.rows), w.height);
  }
};

__device__ void load_lines(const RowTiling& b, const ImageLines& lines, unsigned to,
                           unsigned barrier) {
  const auto bytes = static_cast<unsigned>(max(lines.end - lines.begin, 0)) * b.line();
  const auto row = std::int64_t{lines.image} * b.call.window.height + lines.begin;
  mbarrier_arrive_expect_tx(barrier, bytes);
  if (bytes == 0) return;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(static_cast<const unsigned char*>(b.call.x) + row * b.line()), "r"(bytes), "r"(barrier)
      : "memory");
}

// The pixel pair at `column` of an image line; zeros in the padding, and where the line is null.
__device__ uint4 load_pair(const unsigned short* line, int width, int in, int column) {
  Pack<unsigned short, 8> values;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int at = column + k / 4;
    const bool is = line != nullptr && k % 4 < in && at >= 0 && at < width;
    values.at[k] = is ? line[at * in + k % 4] : static_cast<unsigned short>(0);
  }
  return *reinterpret_cast<const uint4*>(&values);
}

// Expands lines to pixel pairs, one warp for each line.
__device__ void expand_row_tile(const RowTiling& b, const ImageLines& lines,
                                const unsigned char* from, uint4* to) {
  const SlidingWindow& w = b.call.window;
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = warp; i < b.lines(b.rows); i += kWarpgroupThreads / 32) {
    const int y = lines.first + i;
    const unsigned char* const at = from + (y - lines.begin) * static_cast<int>(b.line());
    const auto* const line =
        y >= lines.begin && y < lines.end ? reinterpret_cast<const unsigned short*>(at) : nullptr;
    for (int pair = lane; pair < b.line_pairs; pair += 4 * 32) {
      uint4 made[4];  // all loads are issued before the first store
#pragma unroll
      for (int k = 0; k < 4; ++k)
        made[k] = load_pair(line, w.width, b.call.in, 2 * (pair + k * 32) - w.left);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (pair + k * 32 < b.line_pairs) to[i * b.line_pairs + pair + k * 32] = made[k];
    }
  }
}

// ---- consumers: wgmma and epilogue --------------------------------------------------------------

// Stores four 8 x 8 matrices transposed; lane l gives the address of row l % 8 of matrix l / 8.
__device__ void stmatrix_x4_trans(unsigned to, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// NaN propagates.
__device__ __half2 relu2(__half2 x) { return __hmax2_nan(x, __half2{0.0f, 0.0f}); }
__device__ __nv_bfloat162 relu2(__nv_bfloat162 x) {
  return __hmax2_nan(x, __nv_bfloat162{0.0f, 0.0f});
}
__device__ __half2 pack_pair(float low, float high, __half) { return __floats2half2_rn(low, high); }
__device__ __nv_bfloat162 pack_pair(float low, float high, __nv_bfloat16) {
  return __floats2bfloat162_rn(low, high);
}

template <class T>
__device__ unsigned pack_relu(float low, float high, bool relu) {
  auto made = pack_pair(low, high, T());
  if (relu) made = relu2(made);
  return *reinterpret_cast<const unsigned*>(&made);
}

// Bias, activation and stores of one output tile: kFilters filters by kPixels pixels of an output
// row.
template <class T>
struct ConvEpilogue {
  const RowTiling& b;
  unsigned char* tile;
  int group, first;  // first: of the filters
  float bias[2];     // of this thread's filters, eight apart

  __device__ void store_shared(float (&sum)[kSums]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
    const bool relu = b.call.activation == Activation::relu;
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] += bias[i / 2 % 2];
    if (!relu) activate<true>(sum, b.call.activation, b.call.low, b.call.high);
    named_barrier_sync(group);  // the previous tile has been read
    const unsigned to = shared_address(tile) +
                        static_cast<unsigned>(lane / 16 * 8 + lane % 8) * kPixelPitch +
                        static_cast<unsigned>(warp * 16 + lane / 8 % 2 * 8) * 2;
#pragma unroll
    for (int i = 0; i < kSums / 8; ++i) {
      const float* const s = sum + 8 * i;
      const unsigned four[] = {pack_relu<T>(s[0], s[1], relu), pack_relu<T>(s[2], s[3], relu),
                               pack_relu<T>(s[4], s[5], relu), pack_relu<T>(s[6], s[7], relu)};
      stmatrix_x4_trans(to + static_cast<unsigned>(i) * 16 * kPixelPitch, four);
    }
    named_barrier_sync(group);
  }

  __device__ void store_global(std::int64_t row, int column) const {
    const int own = static_cast<int>(threadIdx.x) % kWarpgroupThreads, eight = own % 8;
    if (first + eight * 8 >= b.call.out) return;
    constexpr int kTimes = kPixels * 8 / kWarpgroupThreads;
    uint4 some[kTimes];  // all loads are issued before the first store
#pragma unroll
    for (int k = 0; k < kTimes; ++k)
      some[k] = *reinterpret_cast<const uint4*>(
          tile + (own + k * kWarpgroupThreads) / 8 * static_cast<int>(kPixelPitch) + eight * 16);
    const int left = b.call.window.out_width - column;
    T* const to = static_cast<T*>(b.call.y) +
                  (row * b.call.window.out_width + column) * b.call.out + first + eight * 8;
#pragma unroll
    for (int k = 0; k < kTimes; ++k) {
      const int pixel = (own + k * kWarpgroupThreads) / 8;
      if (pixel < left) *reinterpret_cast<uint4*>(to + pixel * b.call.out) = some[k];
    }
  }
};

// An ordered barrier: the consumer warpgroups issue wgmma in turn.
__device__ void mma_order_wait(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(kConsumers + 2 + group), "n"(2 * kWarpgroupThreads)
               : "memory");
}
__device__ void mma_order_arrive(int group) {
  const int next = group + 1 == kConsumers ? 0 : group + 1;
  asm volatile("bar.arrive %0, %1;" ::"r"(kConsumers + 2 + next), "n"(2 * kWarpgroupThreads)
               : "memory");
}

// Between fence and commit there is nothing but wgmma: other instructions would serialize them.
template <class P, int kKPairs>
__device__ void mma_tile(const RowTiling& b, int group, unsigned weights, unsigned pairs,
                         float (&sum)[kSums]) {
#pragma unroll
  for (float& one : sum) one = 0;
  MatrixDescriptor a = descriptor(weights, kFilterPairBytes, 8 * kPairBytes),
                   b_matrix = descriptor(pairs, kPairBytes, 8 * kPairBytes);
  mma_order_wait(group);
  wgmma_fence();
#pragma unroll 1
  for (int y = 0; y < b.call.window.rows; ++y) {
#pragma unroll
    for (unsigned k_pair = 0; k_pair < kKPairs; ++k_pair)
      P::mma(sum, a + k_pair * 2 * kFilterPairBytes / 16, b_matrix + k_pair * 2 * kPairBytes / 16);
    a += kKPairs * 2 * kFilterPairBytes / 16;
    b_matrix += static_cast<unsigned>(b.line_pairs) * kPairBytes / 16;
  }
  wgmma_commit();
  mma_order_arrive(group);
  wgmma_wait<0>();
}

// Computes this warpgroup's output tiles of a row tile, from `first` on. Returns its first output
// tile of the next row tile.
template <class T, class P, int kKPairs>
__device__ int convolve_row_tile(const RowTiling& b, int item, int first, unsigned row_tile,
                                 const ConvEpilogue<T>& epilogue) {
  const SlidingWindow& w = b.call.window;
  const int image = item / b.row_tiles, top = item % b.row_tiles * b.rows;
  const int tiles = min(b.rows, w.out_height - top) * b.column_tiles;
  int i = first;
  for (; i < tiles; i += kConsumers) {
    const int row = i / b.column_tiles, column = i % b.column_tiles * kPixels;
    const auto at = static_cast<unsigned>(row * w.stride_y * b.line_pairs + column) * kPairBytes;
    float sum[kSums];
    mma_tile<P, kKPairs>(b, epilogue.group, shared_address(shared_bytes), row_tile + at, sum);
    epilogue.store_shared(sum);
    epilogue.store_global(std::int64_t{image} * w.out_height + top + row, column);
  }
  return i - tiles;
}

template <class T>
__device__ float bias_at(const RowTiling& b, int filter) {
  if (b.call.bias == nullptr || filter >= b.call.out) return 0;
  return wide(static_cast<const T*>(b.call.bias)[filter]);
}

struct RowTileBarriers {
  unsigned at;
  __device__ unsigned full(int stage) const { return at + static_cast<unsigned>(stage) * 24; }
  __device__ unsigned empty(int stage) const { return full(stage) + 8; }
  __device__ unsigned raw(int stage) const { return full(stage) + 16; }

  __device__ void init() const {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(full(i), kWarpgroupThreads / 32);
      mbarrier_init(empty(i), kConsumers * kWarpgroupThreads / 32);
      mbarrier_init(raw(i), 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

// The row tiles of a block, in order, and the stage that holds each.
struct TileSchedule {
  int item, step, count, stage = 0;
  unsigned phase = 0;

  __device__ explicit TileSchedule(const RowTiling& b)
      : item(static_cast<int>(blockIdx.x)),
        step(static_cast<int>(gridDim.x)),
        count(b.call.window.batch * b.row_tiles) {}
  __device__ bool more() const { return item < count; }
  __device__ void next() {
    item += step;
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

__device__ void produce_row_tiles(const RowTiling& b, const RowTileBarriers& barriers,
                                  unsigned char* row_tiles) {
  unsigned char* const raw = row_tiles + kStages * b.bytes(b.rows);
  const bool loads = threadIdx.x % kWarpgroupThreads == 0;
  const auto load = [&](const TileSchedule& work) {
    if (loads && work.more())
      load_lines(b, ImageLines(b, work.item),
                 shared_address(raw) + static_cast<unsigned>(work.stage) * b.raw(b.rows),
                 barriers.raw(work.stage));
  };
  TileSchedule ahead(b);
  load(ahead);
  for (TileSchedule work(b); work.more(); work.next()) {
    ahead.next();
    load(ahead);
    mbarrier_wait(barriers.raw(work.stage), work.phase);
    mbarrier_wait(barriers.empty(work.stage), work.phase ^ 1);
    expand_row_tile(
        b, ImageLines(b, work.item), raw + static_cast<unsigned>(work.stage) * b.raw(b.rows),
        reinterpret_cast<uint4*>(row_tiles + static_cast<unsigned>(work.stage) * b.bytes(b.rows)));
    fence_proxy_async();
    mbarrier_arrive_warp(barriers.full(work.stage));
    named_barrier_sync(kConsumers);  // the lines are read before they are overwritten
  }
}

template <class T, class P, int kKPairs>
__global__ void __launch_bounds__(kThreads, 1)
    conv_few_channels_sm90(const __grid_constant__ RowTiling b) {
  __shared__ unsigned long long storage[3 * kStages];
  const RowTileBarriers barriers{shared_address(storage)};
  unsigned char* const row_tiles = shared_bytes + b.weights();
  const int thread = static_cast<int>(threadIdx.x), group = thread / kWarpgroupThreads;
  const int first = static_cast<int>(blockIdx.y) * kFilters;
  const auto* const filters = static_cast<const uint4*>(b.call.w) + blockIdx.y * b.weights() / 16;
  for (int i = thread; i < static_cast<int>(b.weights() / 16); i += kThreads)
    reinterpret_cast<uint4*>(shared_bytes)[i] = filters[i];
  if (thread == 0) barriers.init();
  fence_proxy_async();
  __syncthreads();
  if (group == kConsumers) return produce_row_tiles(b, barriers, row_tiles);
  const int filter = first + thread % kWarpgroupThreads / 32 * 16 + thread % 32 / 4;
  unsigned char* const tiles = row_tiles + kStages * (b.bytes(b.rows) + b.raw(b.rows));
  const ConvEpilogue<T> epilogue{
      b, tiles + group * kTile, group, first, {bias_at<T>(b, filter), bias_at<T>(b, filter + 8)}};
  if (group + 1 == kConsumers) mma_order_arrive(group);  // consumer 0 begins
  int next = group;
  for (TileSchedule work(b); work.more(); work.next()) {
    const unsigned char* const row_tile =
        row_tiles + static_cast<unsigned>(work.stage) * b.bytes(b.rows);
    mbarrier_wait(barriers.full(work.stage), work.phase);
    next = convolve_row_tile<T, P, kKPairs>(b, work.item, next, shared_address(row_tile), epilogue);
    mbarrier_arrive_warp(barriers.empty(work.stage));
  }
}

// ---- launch --------------------------------------------------------------------------------

RowTiling tiling_of(const ConvCall& call) {
  const SlidingWindow& w = call.window;
  RowTiling b{call};
  b.k_pairs = (w.columns + 3) / 4;
  b.column_tiles = (w.out_width + kPixels - 1) / kPixels;
  b.line_pairs = b.column_tiles * kPixels + 2 * b.k_pairs - 1;
  return b;
}

// As many rows in a row tile as fit, unless blocks would be idle.
RowTiling tiling_for(const ConvCall& call, int blocks) {
  const SlidingWindow& w = call.window;
  RowTiling b = tiling_of(call);
  const int even = static_cast<int>(std::int64_t{w.batch} * w.out_height / blocks);
  int rows = 1;
  while (rows < even && rows < w.out_height && b.shared(rows + 1) <= kMaxShared) ++rows;
  b.row_tiles = (w.out_height + rows - 1) / rows;
  b.rows = (w.out_height + b.row_tiles - 1) / b.row_tiles;
  return b;
}

template <class T, class P>
void enqueue_type(const RowTiling& b, int blocks, CUstream_st* stream) {
  const auto kernel =
      b.k_pairs == 1 ? conv_few_channels_sm90<T, P, 1> : conv_few_channels_sm90<T, P, 2>;
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(kMaxShared)));
  const int tiles = (b.call.out + kFilters - 1) / kFilters;
  const int items = b.call.window.batch * b.row_tiles;
  launch(stream,
         {dim3(static_cast<unsigned>(min(items, blocks)), static_cast<unsigned>(tiles)),
          dim3(kThreads), b.shared(b.rows)},
         kernel, b);
}

}  // namespace

// cp.async.bulk copies lines in multiples of 16 bytes. The limits keep all offsets within 32 bits.
bool conv_few_channels_supports(const ConvCall& call) {
  const SlidingWindow& w = call.window;
  const bool small = w.batch > 0 && w.width <= 4096 && w.height <= 1 << 20 && w.left <= 64 &&
                     w.top <= 64 && w.out_width <= 4096 && w.out_height <= 1 << 20 &&
                     call.out <= 1 << 12;
  return small && call.type != RealType::f32 && call.in <= 4 && call.group == 1 &&
         call.out % 8 == 0 && call.residual == nullptr && w.stride_x == 2 && w.dilation_x == 1 &&
         w.dilation_y == 1 && w.columns <= 8 && w.rows <= 8 && w.stride_y <= 4 &&
         w.width * call.in % 8 == 0 && tiling_of(call).shared(1) <= kMaxShared;
}

void enqueue_conv_few_channels(const ConvCall& call, CUstream_st* stream) {
  const int tiles = (call.out + kFilters - 1) / kFilters;
  const int blocks = max(1, multiprocessors() / tiles);  // for each tile of filters
  const RowTiling tiling = tiling_for(call, blocks);
  if (call.type == RealType::bf16)
    enqueue_type<__nv_bfloat16, WgmmaBf16>(tiling, blocks, stream);
  else
    enqueue_type<__half, WgmmaF16>(tiling, blocks, stream);
}

}  // namespace sluice::kernels::cuda
