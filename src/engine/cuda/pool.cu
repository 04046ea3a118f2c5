#include "engine/cuda/element.cuh"
#include "engine/cuda/sliding.cuh"

namespace sluice::engine::cuda {
namespace {

constexpr int kThreads = 256;

// N channels of one pixel a thread. Limit: memory.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) pool(const PoolCall call, long long packs) {
  using P = Pack<T, N>;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const Sliding& w = call.window;
  const int parts = call.channels / N;
  const long long pixel = i / parts;
  const int channel = static_cast<int>(i % parts) * N;
  const Corner corner = corner_of(w, pixel);
  float made[N];
  int seen = 0;
#pragma unroll
  for (int e = 0; e < N; ++e) made[e] = call.maximum ? -INFINITY : 0;
  for (int row = 0; row < w.rows; ++row)
    for (int column = 0; column < w.columns; ++column) {
      const long long at = pixel_at(w, corner, row, column);
      if (at < 0) continue;
      ++seen;
      const P values =
          *reinterpret_cast<const P*>(static_cast<const T*>(call.x) + at * call.channels + channel);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float value = wide(values.at[e]);
        if (!call.maximum)
          made[e] += value;
        else if (value > made[e] || value != value)  // NaN stays
          made[e] = value;
      }
    }
  const int count = call.counts_padding ? w.rows * w.columns : seen;
  P out;
#pragma unroll
  for (int e = 0; e < N; ++e)
    out.at[e] = narrow<T>(call.maximum ? made[e] : made[e] / static_cast<float>(count));
  *reinterpret_cast<P*>(static_cast<T*>(call.y) + pixel * call.channels + channel) = out;
}

template <class T, int N>
void enqueue_as(const PoolCall& call, cudaStream_t stream) {
  const long long packs = pixels_of(call.window) * (call.channels / N);
  if (packs > 0) launch(stream, one_each(packs, kThreads), pool<T, N>, call, packs);
}

template <class T>
void enqueue_of(const PoolCall& call, cudaStream_t stream) {
  constexpr int kMost = 16 / sizeof(T);
  return call.channels % kMost == 0 ? enqueue_as<T, kMost>(call, stream)
                                    : enqueue_as<T, 1>(call, stream);
}

}  // namespace

void enqueue_pool(const PoolCall& call, CUstream_st* stream) {
  switch (call.type) {
    case RealType::f32: return enqueue_of<float>(call, stream);
    case RealType::f16: return enqueue_of<__half>(call, stream);
    case RealType::bf16: return enqueue_of<__nv_bfloat16>(call, stream);
  }
}

}  // namespace sluice::engine::cuda
