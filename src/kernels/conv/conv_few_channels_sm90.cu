// Two neighbouring pixels of up to four channels are a spot of 16 bytes: what the tensor cores take
// for eight numbers of a column of their right side. They are told where the first column is, and
// how far it is from eight numbers to the next eight: one spot on. So columns of the right side,
// which are windows, overlap in shared memory as they do in the image, and nothing is written
// twice. Filters are the left side. One group of four warps makes bands of lines that are copied
// meanwhile, two multiply in turn, so that one writes while the other multiplies.
//
// Limit: memory, which reads the image and writes the results: 57 us for ResNet-50's first
// convolution of 128 images; the tensor cores, 56 cycles for 64 filters, 112 pixels and two spots,
// take 49. Seen 109, 52 %: products alone take 69, and what is made of sums and stored does not all
// hide behind them.
#include "kernels/common/activation.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kFilters = 64, kPixels = 112;  // of a tile
constexpr int kSums = kFilters * kPixels / 128;
constexpr int kGroups = 2, kOfGroup = 128, kThreads = (kGroups + 1) * kOfGroup;
constexpr int kBuffers = 2;                                // for bands
constexpr unsigned kSpot = 16, kSpots = kFilters * kSpot;  // of weights: one of each filter
constexpr unsigned kPixel = kFilters * 2 + 16;  // of a tile on its way out: no two lanes meet
constexpr unsigned kTile = kPixels * kPixel;
constexpr unsigned kMostShared = 224 << 10;

// How images are cut.
struct Band {
  ConvCall call;
  int rows = 1;    // of results in a band
  int bands = 1;   // of an image
  int spots = 0;   // of a line
  int pairs = 1;   // of spots in a row of the window
  int across = 1;  // tiles of a row of results

  __host__ __device__ unsigned weights() const {
    return static_cast<unsigned>(call.window.rows * pairs) * 2 * kSpots;
  }
  __host__ __device__ int lines(int of) const {  // of the image, for so many rows of results
    return (of - 1) * call.window.stride_y + call.window.rows;
  }
  __host__ __device__ unsigned bytes(int of) const {  // of a band
    return static_cast<unsigned>(lines(of) * spots) * kSpot;
  }
  __host__ __device__ unsigned line() const {  // of the image, in bytes
    return static_cast<unsigned>(call.window.width * call.in) * 2;
  }
  __host__ __device__ unsigned raw(int of) const {  // lines as they are
    return static_cast<unsigned>(lines(of)) * line();
  }
  unsigned shared(int of) const {
    return weights() + kBuffers * (bytes(of) + raw(of)) + kGroups * kTile;
  }
};

// Where a side of a product lies in shared memory: how far eight numbers are from the next eight,
// and eight rows from the next eight.
__device__ Side side(unsigned at, unsigned numbers, unsigned rows) {
  return (at & 0x3ffff) >> 4 | Side{numbers >> 4} << 16 | Side{rows >> 4} << 32;
}

__device__ void await_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kOfGroup) : "memory");
}

// ---- what makes bands ----------------------------------------------------------------------

// The lines of an image that a band is made of.
struct Lines {
  int image, first, begin, end;  // first may be outside; [begin, end) are in the image

  __device__ Lines(const Band& b, int item) : image(item / b.bands) {
    const Sliding& w = b.call.window;
    first = item % b.bands * b.rows * w.stride_y - w.top;
    begin = max(first, 0);
    end = min(first + b.lines(b.rows), w.height);
  }
};

__device__ void fetch_lines(const Band& b, const Lines& lines, unsigned to, unsigned barrier) {
  const auto bytes = static_cast<unsigned>(max(lines.end - lines.begin, 0)) * b.line();
  const auto row = std::int64_t{lines.image} * b.call.window.height + lines.begin;
  arrive_with(barrier, bytes);
  if (bytes == 0) return;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(static_cast<const unsigned char*>(b.call.x) + row * b.line()), "r"(bytes), "r"(barrier)
      : "memory");
}

// Two pixels, the first of them at `column`, of a line of the image; zeros outside, and for null.
__device__ uint4 spot_of(const unsigned short* line, int width, int in, int column) {
  Pack<unsigned short, 8> both;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int at = column + k / 4;
    const bool is = line != nullptr && k % 4 < in && at >= 0 && at < width;
    both.at[k] = is ? line[at * in + k % 4] : static_cast<unsigned short>(0);
  }
  return *reinterpret_cast<const uint4*>(&both);
}

// A warp each line.
__device__ void make_band(const Band& b, const Lines& lines, const unsigned char* from, uint4* to) {
  const Sliding& w = b.call.window;
  const int warp = static_cast<int>(threadIdx.x) % kOfGroup / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = warp; i < b.lines(b.rows); i += kOfGroup / 32) {
    const int y = lines.first + i;
    const unsigned char* const at = from + (y - lines.begin) * static_cast<int>(b.line());
    const auto* const line =
        y >= lines.begin && y < lines.end ? reinterpret_cast<const unsigned short*>(at) : nullptr;
    for (int spot = lane; spot < b.spots; spot += 4 * 32) {
      uint4 made[4];  // all are read before any is written, so that none waits for another
#pragma unroll
      for (int k = 0; k < 4; ++k)
        made[k] = spot_of(line, w.width, b.call.in, 2 * (spot + k * 32) - w.left);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (spot + k * 32 < b.spots) to[i * b.spots + spot + k * 32] = made[k];
    }
  }
}

// ---- what multiplies -----------------------------------------------------------------------

// 8 x 8 numbers each of four, turned; lane l gives the address of row l % 8 of tile l / 8.
__device__ void store_turned(unsigned to, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// NaN stays.
__device__ __half2 not_below_zero(__half2 x) { return __hmax2_nan(x, __half2{0.0f, 0.0f}); }
__device__ __nv_bfloat162 not_below_zero(__nv_bfloat162 x) {
  return __hmax2_nan(x, __nv_bfloat162{0.0f, 0.0f});
}
__device__ __half2 both(float low, float high, __half) { return __floats2half2_rn(low, high); }
__device__ __nv_bfloat162 both(float low, float high, __nv_bfloat16) {
  return __floats2bfloat162_rn(low, high);
}

template <class T>
__device__ unsigned two(float low, float high, bool relu) {
  auto made = both(low, high, T());
  if (relu) made = not_below_zero(made);
  return *reinterpret_cast<const unsigned*>(&made);
}

// Sums of some filters, to where they go: pixels [column, column + kPixels) of a row of results.
template <class T>
struct Finish {
  const Band& b;
  unsigned char* tile;
  int group, first;  // filter
  float bias[2];     // of this thread's filters, eight apart

  __device__ void put(float (&sum)[kSums]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % kOfGroup / 32;
    const bool relu = b.call.activation == Activation::relu;
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] += bias[i / 2 % 2];
    if (!relu) activate<true>(sum, b.call.activation, b.call.low, b.call.high);
    await_group(group);  // the tile before has gone
    const unsigned to = shared_address(tile) +
                        static_cast<unsigned>(lane / 16 * 8 + lane % 8) * kPixel +
                        static_cast<unsigned>(warp * 16 + lane / 8 % 2 * 8) * 2;
#pragma unroll
    for (int i = 0; i < kSums / 8; ++i) {
      const float* const s = sum + 8 * i;
      const unsigned four[] = {two<T>(s[0], s[1], relu), two<T>(s[2], s[3], relu),
                               two<T>(s[4], s[5], relu), two<T>(s[6], s[7], relu)};
      store_turned(to + static_cast<unsigned>(i) * 16 * kPixel, four);
    }
    await_group(group);
  }

  __device__ void write(std::int64_t row, int column) const {
    const int own = static_cast<int>(threadIdx.x) % kOfGroup, eight = own % 8;
    if (first + eight * 8 >= b.call.out) return;
    constexpr int kTimes = kPixels * 8 / kOfGroup;
    uint4 some[kTimes];  // all are read before any is written, so that none waits for another
#pragma unroll
    for (int k = 0; k < kTimes; ++k)
      some[k] = *reinterpret_cast<const uint4*>(
          tile + (own + k * kOfGroup) / 8 * static_cast<int>(kPixel) + eight * 16);
    const int left = b.call.window.out_width - column;
    T* const to = static_cast<T*>(b.call.y) +
                  (row * b.call.window.out_width + column) * b.call.out + first + eight * 8;
#pragma unroll
    for (int k = 0; k < kTimes; ++k) {
      const int pixel = (own + k * kOfGroup) / 8;
      if (pixel < left) *reinterpret_cast<uint4*>(to + pixel * b.call.out) = some[k];
    }
  }
};

// Groups multiply one after the other, always in the same order.
__device__ void await_turn(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(kGroups + 2 + group), "n"(2 * kOfGroup) : "memory");
}
__device__ void pass_turn(int group) {
  const int next = group + 1 == kGroups ? 0 : group + 1;
  asm volatile("bar.arrive %0, %1;" ::"r"(kGroups + 2 + next), "n"(2 * kOfGroup) : "memory");
}

// Nothing but products between their beginning and their end, or they would wait for each other.
template <class P, int kPairs>
__device__ void multiply(const Band& b, int group, unsigned weights, unsigned spots,
                         float (&sum)[kSums]) {
#pragma unroll
  for (float& one : sum) one = 0;
  Side left = side(weights, kSpots, 8 * kSpot), right = side(spots, kSpot, 8 * kSpot);
  await_turn(group);
  begin_products();
#pragma unroll 1
  for (int y = 0; y < b.call.window.rows; ++y) {
#pragma unroll
    for (unsigned pair = 0; pair < kPairs; ++pair)
      P::add(sum, left + pair * 2 * kSpots / 16, right + pair * 2 * kSpot / 16);
    left += kPairs * 2 * kSpots / 16;
    right += static_cast<unsigned>(b.spots) * kSpot / 16;
  }
  end_products();
  pass_turn(group);
  await_products<0>();
}

// This group's tiles of a band, from tile `first` on. Returns which is its first of the next.
template <class T, class P, int kPairs>
__device__ int convolve_band(const Band& b, int item, int first, unsigned band,
                             const Finish<T>& finish) {
  const Sliding& w = b.call.window;
  const int image = item / b.bands, top = item % b.bands * b.rows;
  const int tiles = min(b.rows, w.out_height - top) * b.across;
  int i = first;
  for (; i < tiles; i += kGroups) {
    const int row = i / b.across, column = i % b.across * kPixels;
    const auto at = static_cast<unsigned>(row * w.stride_y * b.spots + column) * kSpot;
    float sum[kSums];
    multiply<P, kPairs>(b, finish.group, shared_address(shared_bytes), band + at, sum);
    finish.put(sum);
    finish.write(std::int64_t{image} * w.out_height + top + row, column);
  }
  return i - tiles;
}

template <class T>
__device__ float bias_at(const Band& b, int filter) {
  if (b.call.bias == nullptr || filter >= b.call.out) return 0;
  return wide(static_cast<const T*>(b.call.bias)[filter]);
}

struct BandBarriers {
  unsigned at;
  __device__ unsigned full(int buffer) const { return at + static_cast<unsigned>(buffer) * 24; }
  __device__ unsigned empty(int buffer) const { return full(buffer) + 8; }
  __device__ unsigned raw(int buffer) const { return full(buffer) + 16; }

  __device__ void init() const {
    for (int i = 0; i < kBuffers; ++i) {
      init_barrier(full(i), kOfGroup / 32);
      init_barrier(empty(i), kGroups * kOfGroup / 32);
      init_barrier(raw(i), 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

// A block's share of the bands, one after the other through its buffers.
struct Share {
  int item, step, count, at = 0;
  unsigned phase = 0;

  __device__ explicit Share(const Band& b)
      : item(static_cast<int>(blockIdx.x)),
        step(static_cast<int>(gridDim.x)),
        count(b.call.window.batch * b.bands) {}
  __device__ bool more() const { return item < count; }
  __device__ void next() {
    item += step;
    if (++at == kBuffers) at = 0, phase ^= 1;
  }
};

__device__ void make_bands(const Band& b, const BandBarriers& barriers, unsigned char* bands) {
  unsigned char* const raw = bands + kBuffers * b.bytes(b.rows);
  const bool fetches = threadIdx.x % kOfGroup == 0;
  const auto fetch = [&](const Share& share) {
    if (fetches && share.more())
      fetch_lines(b, Lines(b, share.item),
                  shared_address(raw) + static_cast<unsigned>(share.at) * b.raw(b.rows),
                  barriers.raw(share.at));
  };
  Share ahead(b);
  fetch(ahead);
  for (Share share(b); share.more(); share.next()) {
    ahead.next();
    fetch(ahead);
    await(barriers.raw(share.at), share.phase);
    await(barriers.empty(share.at), share.phase ^ 1);
    make_band(b, Lines(b, share.item), raw + static_cast<unsigned>(share.at) * b.raw(b.rows),
              reinterpret_cast<uint4*>(bands + static_cast<unsigned>(share.at) * b.bytes(b.rows)));
    show_to_others();
    arrive_as_warp(barriers.full(share.at));
    await_group(kGroups);  // all have read the lines before more are fetched there
  }
}

template <class T, class P, int kPairs>
__global__ void __launch_bounds__(kThreads, 1) convolve(const __grid_constant__ Band b) {
  __shared__ unsigned long long room[3 * kBuffers];
  const BandBarriers barriers{shared_address(room)};
  unsigned char* const bands = shared_bytes + b.weights();
  const int thread = static_cast<int>(threadIdx.x), group = thread / kOfGroup;
  const int first = static_cast<int>(blockIdx.y) * kFilters;
  const auto* const filters = static_cast<const uint4*>(b.call.w) + blockIdx.y * b.weights() / 16;
  for (int i = thread; i < static_cast<int>(b.weights() / 16); i += kThreads)
    reinterpret_cast<uint4*>(shared_bytes)[i] = filters[i];
  if (thread == 0) barriers.init();
  show_to_others();
  __syncthreads();
  if (group == kGroups) return make_bands(b, barriers, bands);
  const int filter = first + thread % kOfGroup / 32 * 16 + thread % 32 / 4;
  unsigned char* const tiles = bands + kBuffers * (b.bytes(b.rows) + b.raw(b.rows));
  const Finish<T> finish{
      b, tiles + group * kTile, group, first, {bias_at<T>(b, filter), bias_at<T>(b, filter + 8)}};
  if (group + 1 == kGroups) pass_turn(group);  // to the first
  int next = group;
  for (Share share(b); share.more(); share.next()) {
    const unsigned char* const band = bands + static_cast<unsigned>(share.at) * b.bytes(b.rows);
    await(barriers.full(share.at), share.phase);
    next = convolve_band<T, P, kPairs>(b, share.item, next, shared_address(band), finish);
    arrive_as_warp(barriers.empty(share.at));
  }
}

// ---- launch --------------------------------------------------------------------------------

Band shape_of(const ConvCall& call) {
  const Sliding& w = call.window;
  Band b{call};
  b.pairs = (w.columns + 3) / 4;
  b.across = (w.out_width + kPixels - 1) / kPixels;
  b.spots = b.across * kPixels + 2 * b.pairs - 1;
  return b;
}

// As many rows in a band as fit, unless blocks would be idle.
Band cut(const ConvCall& call, int blocks) {
  const Sliding& w = call.window;
  Band b = shape_of(call);
  const int even = static_cast<int>(std::int64_t{w.batch} * w.out_height / blocks);
  int most = 1;
  while (most < even && most < w.out_height && b.shared(most + 1) <= kMostShared) ++most;
  b.bands = (w.out_height + most - 1) / most;
  b.rows = (w.out_height + b.bands - 1) / b.bands;
  return b;
}

template <class T, class P>
void start(const Band& b, int blocks, CUstream_st* stream) {
  const auto kernel = b.pairs == 1 ? convolve<T, P, 1> : convolve<T, P, 2>;
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(kMostShared)));
  const int tiles = (b.call.out + kFilters - 1) / kFilters;
  const int items = b.call.window.batch * b.bands;
  launch(stream,
         {dim3(static_cast<unsigned>(min(items, blocks)), static_cast<unsigned>(tiles)),
          dim3(kThreads), b.shared(b.rows)},
         kernel, b);
}

}  // namespace

// Lines are copied in pieces of 16 bytes. Sizes are such that numbers of 32 bits hold all of them.
bool band_takes(const ConvCall& call) {
  const Sliding& w = call.window;
  const bool small = w.batch > 0 && w.width <= 4096 && w.height <= 1 << 20 && w.left <= 64 &&
                     w.top <= 64 && w.out_width <= 4096 && w.out_height <= 1 << 20 &&
                     call.out <= 1 << 12;
  return small && call.type != RealType::f32 && call.in <= 4 && call.group == 1 &&
         call.out % 8 == 0 && call.residual == nullptr && w.stride_x == 2 && w.dilation_x == 1 &&
         w.dilation_y == 1 && w.columns <= 8 && w.rows <= 8 && w.stride_y <= 4 &&
         w.width * call.in % 8 == 0 && shape_of(call).shared(1) <= kMostShared;
}

void enqueue_band(const ConvCall& call, CUstream_st* stream) {
  const int tiles = (call.out + kFilters - 1) / kFilters;
  const int blocks = max(1, multiprocessors() / tiles);  // for each tile of filters
  const Band band = cut(call, blocks);
  if (call.type == RealType::bf16)
    start<__nv_bfloat16, BHalves>(band, blocks, stream);
  else
    start<__half, Halves>(band, blocks, stream);
}

}  // namespace sluice::kernels::cuda
