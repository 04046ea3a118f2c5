// Two neighbouring pixels of up to four channels are a spot of 16 bytes: what the tensor cores take
// for eight numbers of a row of their left side. They are told where the first row is, and how far
// it is from eight numbers to the next eight: one spot on. So rows of the left side, which are
// windows, overlap in shared memory as they do in the image, and nothing is written twice.
//
// Limit: the tensor cores, since both sides come from shared memory: 32 cycles for 64 pixels by 64
// filters and two spots. ResNet-50's first convolution of 128 images: 50 us, as long as it takes to
// write its results.
#include "engine/cuda/activation.cuh"
#include "engine/cuda/barrier.cuh"
#include "engine/cuda/conv_band.h"
#include "engine/cuda/launch.cuh"
#include "engine/cuda/products.cuh"

namespace sluice::engine::cuda {
namespace {

constexpr int kPixels = 64, kFilters = 64;  // of a tile
constexpr int kGroups = 2, kOfGroup = 128, kThreads = kGroups * kOfGroup;
constexpr unsigned kSpot = 16, kSpots = kFilters * kSpot;  // of weights: one of each filter
constexpr unsigned kRow = kFilters * 2 + 16;  // of a tile on its way out: no two lanes meet
constexpr unsigned kTile = kPixels * kRow;
constexpr unsigned kMostShared = 112 << 10;  // of a block, so that a multiprocessor has two

// How images are cut.
struct Band {
  ConvCall call;
  int rows = 1;    // of results in a band
  int bands = 1;   // of an image
  int spots = 0;   // of a row
  int pairs = 1;   // of spots in a row of the window
  int across = 1;  // tiles of a row of results

  __host__ __device__ unsigned weights() const {
    return static_cast<unsigned>(call.window.rows * pairs) * 2 * kSpots;
  }
  __host__ __device__ int lines(int of) const {  // of the image, for so many rows of results
    return (of - 1) * call.window.stride_y + call.window.rows;
  }
  unsigned shared(int of) const {
    return weights() + static_cast<unsigned>(lines(of) * spots) * kSpot + kGroups * kTile;
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

// Spots of the image's lines from `line` on, zeros where it has none; a warp each line.
template <class T>
__device__ void load_band(const Band& b, int image, int line, uint4* to) {
  const Sliding& w = b.call.window;
  const auto* const x = static_cast<const T*>(b.call.x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = warp; i < b.lines(b.rows); i += kThreads / 32) {
    const int y = line + i;
    const bool there = y >= 0 && y < w.height;
    const T* const row =
        x + (std::int64_t{image} * w.height + (there ? y : 0)) * w.width * b.call.in;
#pragma unroll 4
    for (int spot = lane; spot < b.spots; spot += 32) {
      Pack<T, 8> both;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int column = 2 * spot - w.left + k / 4;
        const bool is = there && k % 4 < b.call.in && column >= 0 && column < w.width;
        both.at[k] = is ? row[column * b.call.in + k % 4] : T(0.0f);
      }
      to[i * b.spots + spot] = *reinterpret_cast<const uint4*>(&both);
    }
  }
}

// Sums as they are, to where they go: pixels [column, column + kPixels) of a row of results.
template <class T>
struct Finish {
  const Band& b;
  const float* bias;  // of the tile's filters
  unsigned char* tile;
  int group, first;  // filter

  __device__ void put(float (&sum)[32]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = static_cast<int>(threadIdx.x) % kOfGroup / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) sum[i] += bias[i / 4 * 8 + lane % 4 * 2 + i % 2];
    activate<true>(sum, b.call.activation, b.call.low, b.call.high);
    await_group(group);  // the tile before has gone
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const Pack<T, 2> two{narrow<T>(sum[i]), narrow<T>(sum[i + 1])};
      const int at = (row + i / 2 % 2 * 8) * static_cast<int>(kRow);
      *reinterpret_cast<Pack<T, 2>*>(tile + at + (i / 4 * 8 + lane % 4 * 2) * 2) = two;
    }
    await_group(group);
  }

  __device__ void write(std::int64_t row, int column) const {
    const int own = static_cast<int>(threadIdx.x) % kOfGroup, eight = own % 8;
    if (first + eight * 8 >= b.call.out) return;
    T* const to = static_cast<T*>(b.call.y) + first + eight * 8;
#pragma unroll
    for (int pixel = own / 8; pixel < kPixels; pixel += kOfGroup / 8) {
      if (column + pixel >= b.call.window.out_width) return;
      const std::int64_t at = row * b.call.window.out_width + column + pixel;
      *reinterpret_cast<uint4*>(to + at * b.call.out) =
          *reinterpret_cast<const uint4*>(tile + pixel * static_cast<int>(kRow) + eight * 16);
    }
  }
};

// Nothing but products between their beginning and their end, or they would wait for each other.
template <class P, int kPairs>
__device__ void multiply(const Band& b, unsigned weights, unsigned spots, float (&sum)[32]) {
#pragma unroll
  for (float& one : sum) one = 0;
  Side left = side(spots, kSpot, 8 * kSpot), right = side(weights, kSpots, 8 * kSpot);
  begin_products();
#pragma unroll 1
  for (int y = 0; y < b.call.window.rows; ++y) {
#pragma unroll
    for (unsigned pair = 0; pair < kPairs; ++pair)
      P::add(sum, left + pair * 2 * kSpot / 16, right + pair * 2 * kSpots / 16);
    left += static_cast<unsigned>(b.spots) * kSpot / 16;
    right += kPairs * 2 * kSpots / 16;
  }
  end_products();
  await_products<0>();
}

template <class T, class P, int kPairs>
__global__ void __launch_bounds__(kThreads, 2) convolve(const __grid_constant__ Band b) {
  __shared__ float bias[kFilters];
  const Sliding& w = b.call.window;
  unsigned char* const band = shared_bytes + b.weights();
  const int thread = static_cast<int>(threadIdx.x), group = thread / kOfGroup;
  const int first = static_cast<int>(blockIdx.y) * kFilters;
  const auto* const filters = static_cast<const uint4*>(b.call.w) + blockIdx.y * b.weights() / 16;
  for (int i = thread; i < static_cast<int>(b.weights() / 16); i += kThreads)
    reinterpret_cast<uint4*>(shared_bytes)[i] = filters[i];
  if (thread < kFilters)
    bias[thread] = b.call.bias != nullptr && first + thread < b.call.out
                       ? wide(static_cast<const T*>(b.call.bias)[first + thread])
                       : 0;
  unsigned char* const tile =
      band + static_cast<unsigned>(b.lines(b.rows) * b.spots) * kSpot + group * kTile;
  const Finish<T> finish{b, bias, tile, group, first};
  for (int item = static_cast<int>(blockIdx.x); item < w.batch * b.bands;
       item += static_cast<int>(gridDim.x)) {
    const int image = item / b.bands, top = item % b.bands * b.rows;
    __syncthreads();  // the band before is done with
    load_band<T>(b, image, top * w.stride_y - w.top, reinterpret_cast<uint4*>(band));
    show_to_others();
    __syncthreads();
    const int rows = min(b.rows, w.out_height - top);
    for (int i = group; i < rows * b.across; i += kGroups) {
      const int row = i / b.across;
      const int column = max(0, min(i % b.across * kPixels, w.out_width - kPixels));
      const auto at = static_cast<unsigned>(row * w.stride_y * b.spots + column) * kSpot;
      float sum[32];
      multiply<P, kPairs>(b, shared_address(shared_bytes), shared_address(band) + at, sum);
      finish.put(sum);
      finish.write(std::int64_t{image} * w.out_height + top + row, column);
    }
  }
}

int processors() {
  int device = 0, count = 0;
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

// As many rows in a band as fit, unless blocks would be idle.
Band cut(const ConvCall& call, int blocks) {
  const Sliding& w = call.window;
  Band b{call};
  b.pairs = (w.columns + 3) / 4;
  b.across = (w.out_width + kPixels - 1) / kPixels;
  b.spots = max(w.out_width, kPixels) + 2 * b.pairs - 1;
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
  const int items = b.call.window.batch * b.bands, each = max(1, blocks / tiles);
  launch(stream,
         {dim3(static_cast<unsigned>(min(items, each)), static_cast<unsigned>(tiles)),
          dim3(kThreads), b.shared(b.rows)},
         kernel, b);
}

}  // namespace

void enqueue_band(const ConvCall& call, CUstream_st* stream) {
  const int blocks = 2 * processors();
  const Band band = cut(call, blocks);
  if (call.type == RealType::bf16)
    start<__nv_bfloat16, BHalves>(band, blocks, stream);
  else
    start<__half, Halves>(band, blocks, stream);
}

}  // namespace sluice::engine::cuda
