#include "kernels/common/activation.cuh"
#include "kernels/common/element.cuh"
#include "kernels/conv/sliding_window.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64, kTileDepth = 16;  // tiles of 64 pixels x 64 outputs
constexpr int kPitch = kTile + 4;

template <class T>
__device__ T apply_epilogue(const ConvCall& call, float sum, long long pixel, int o) {
  if (call.bias != nullptr) sum += wide(static_cast<const T*>(call.bias)[o]);
  if (call.residual != nullptr)
    sum += wide(static_cast<const T*>(call.residual)[pixel * call.out + o]);
  return narrow<T>(activated(sum, call.activation, call.low, call.high));
}

using Tile = float[kTileDepth][kPitch];

// The tile of a block: pixels from `first` on, outputs of one group from `first_out` on.
struct Block {
  long long first, all;
  int first_out, group, ins, outs, depth;

  __device__ explicit Block(const ConvCall& call)
      : first(static_cast<long long>(blockIdx.x) * kTile),
        all(static_cast<long long>(call.window.batch) * call.window.out_height *
            call.window.out_width),
        first_out(static_cast<int>(blockIdx.y) * kTile),
        group(static_cast<int>(blockIdx.z)),
        ins(call.in / call.group),
        outs(call.out / call.group),
        depth(call.window.rows * call.window.columns * ins) {}
};

// Loads kTileDepth values along k: each thread four of a pixel and four of an output's weights.
template <class T>
__device__ void load(const ConvCall& call, const Block& block, const WindowCorner& corner, int k0,
                     Tile& pixels, Tile& weights) {
  const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4 * 4;
  const SlidingWindow& w = call.window;
  const T* const x = static_cast<const T*>(call.x) + block.group * block.ins;
  const long long out = static_cast<long long>(block.group) * block.outs + block.first_out + row;
  const T* const mine = static_cast<const T*>(call.w) + out * block.depth;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int k = k0 + part + i, tap = k / block.ins;
    long long at = -1;
    if (block.first + row < block.all && k < block.depth)
      at = pixel_at(w, corner, tap / w.columns, tap % w.columns);
    const bool weighs = k < block.depth && block.first_out + row < block.outs;
    pixels[part + i][row] = at < 0 ? 0 : wide(x[at * call.in + k % block.ins]);
    weights[part + i][row] = weighs ? wide(mine[k]) : 0;
  }
}

template <class T>
__device__ void store(const ConvCall& call, const Block& block, int row, int column,
                      const float (&sums)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const long long pixel = block.first + row + i;
      if (pixel >= block.all || block.first_out + column + j >= block.outs) continue;
      const int o = block.group * block.outs + block.first_out + column + j;
      static_cast<T*>(call.y)[pixel * call.out + o] = apply_epilogue<T>(call, sums[i][j], pixel, o);
    }
}

// A convolution as an implicit GEMM whose A operand is gathered from the image. Grid: tiles of
// pixels, tiles of a group's outputs, groups. Each sum runs along k in order, so results do not
// depend on the tiling. Limit: the FMA units, at 16 FMAs for 8 reads of shared memory.
template <class T>
__global__ void __launch_bounds__(kThreads) implicit_gemm_conv(const ConvCall call) {
  __shared__ Tile pixels, weights;
  const Block block(call);
  const int tid = static_cast<int>(threadIdx.x);
  const long long mine = block.first + tid / 4;
  const WindowCorner corner = corner_of(call.window, mine < block.all ? mine : 0);
  const int row = tid / 16 * 4, column = tid % 16 * 4;
  float sums[4][4] = {};
  for (int k0 = 0; k0 < block.depth; k0 += kTileDepth) {
    load<T>(call, block, corner, k0, pixels, weights);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTileDepth; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[i][j] = fmaf(pixels[k][row + i], weights[k][column + j], sums[i][j]);
    __syncthreads();
  }
  store<T>(call, block, row, column, sums);
}

// Each thread computes N channels of a pixel. Limit: memory, which is read once where rows stay in
// cache.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) depthwise_conv(const ConvCall call, long long packs) {
  using P = Pack<T, N>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const SlidingWindow& w = call.window;
  const int parts = call.out / N, o = static_cast<int>(i % parts) * N;
  const int channel = o / (call.out / call.in);  // equals o unless a channel has several outputs
  const long long pixel = i / parts;
  const WindowCorner corner = corner_of(w, pixel);
  float sums[N] = {};
  for (int row = 0; row < w.rows; ++row)
    for (int column = 0; column < w.columns; ++column) {
      const long long at = pixel_at(w, corner, row, column);
      if (at < 0) continue;
      const T* const from = static_cast<const T*>(call.x) + at * call.in + channel;
      const T* const by = static_cast<const T*>(call.w) +
                          static_cast<long long>(row * w.columns + column) * call.out + o;
      const P seen = *reinterpret_cast<const P*>(from), weight = *reinterpret_cast<const P*>(by);
#pragma unroll
      for (int e = 0; e < N; ++e) sums[e] = fmaf(wide(seen.at[e]), wide(weight.at[e]), sums[e]);
    }
  P made;
#pragma unroll
  for (int e = 0; e < N; ++e) made.at[e] = apply_epilogue<T>(call, sums[e], pixel, o + e);
  *reinterpret_cast<P*>(static_cast<T*>(call.y) + pixel * call.out + o) = made;
}

template <class T, int N>
void enqueue_depthwise_packed(const ConvCall& call, cudaStream_t stream) {
  const long long packs = pixels_of(call.window) * (call.out / N);
  if (packs > 0) launch(stream, one_each(packs, kThreads), depthwise_conv<T, N>, call, packs);
}

template <class T>
void enqueue_depthwise_of(const ConvCall& call, cudaStream_t stream) {
  constexpr int kVector = 16 / sizeof(T);
  if (call.in == call.out && call.out % kVector == 0)
    enqueue_depthwise_packed<T, kVector>(call, stream);
  else
    enqueue_depthwise_packed<T, 1>(call, stream);
}

template <class T>
void enqueue_convolution_of(const ConvCall& call, cudaStream_t stream) {
  const long long pixels = pixels_of(call.window);
  if (pixels == 0 || call.out == 0) return;
  const Grid grid{dim3(static_cast<unsigned>((pixels + kTile - 1) / kTile),
                       static_cast<unsigned>((call.out / call.group + kTile - 1) / kTile),
                       static_cast<unsigned>(call.group)),
                  dim3(kThreads)};
  launch(stream, grid, implicit_gemm_conv<T>, call);
}

}  // namespace

void enqueue_convolution(const ConvCall& call, CUstream_st* stream) {
  switch (call.type) {
    case RealType::f32: return enqueue_convolution_of<float>(call, stream);
    case RealType::f16: return enqueue_convolution_of<__half>(call, stream);
    case RealType::bf16: return enqueue_convolution_of<__nv_bfloat16>(call, stream);
  }
}

void enqueue_depthwise(const ConvCall& call, CUstream_st* stream) {
  switch (call.type) {
    case RealType::f32: return enqueue_depthwise_of<float>(call, stream);
    case RealType::f16: return enqueue_depthwise_of<__half>(call, stream);
    case RealType::bf16: return enqueue_depthwise_of<__nv_bfloat16>(call, stream);
  }
}

}  // namespace sluice::kernels::cuda
