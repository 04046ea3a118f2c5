// Attention of any element type, size and alignment: a warp for each query, which takes 32
// keys at a time, one to a lane; then the lanes have the columns of the output.
#include "kernels/attention/varlen.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 4;

template <class T>
__device__ float mask_of(const AttentionCall& call, std::int64_t at) {
  if (call.mask == nullptr) return 0;
  return call.mask_is_f32 ? static_cast<const float*>(call.mask)[at]
                          : wide(static_cast<const T*>(call.mask)[at]);
}

template <class T>
__device__ float dot(const float* a, const T* b, int size) {
  float sum = 0;
  for (int i = 0; i < size; ++i) sum = fmaf(a[i], wide(b[i]), sum);
  return sum;
}

// The values of some keys, each by the weight that a lane has.
template <class T, int kSlots>
__device__ void mix(float (&out)[kSlots], float weight, const T* values, const AttentionCall& call,
                    int keys, int lane) {
  for (int j = 0; j < keys; ++j) {
    const float w = __shfl_sync(kAllLanes, weight, j);
    const T* const value = values + j * call.v_row;
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (lane + 32 * i < call.size) out[i] = fmaf(w, wide(value[lane + 32 * i]), out[i]);
  }
}

// kSlots * 32 columns at most.
template <class T, int kSlots>
__global__ void plain_kernel(const AttentionCall all) {
  __shared__ float queries[kWarps][kSlots * 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t id = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  const int row = static_cast<int>(id % all.queries);
  const int head = static_cast<int>(id / all.queries % all.heads);
  const int entry = static_cast<int>(id / all.queries / all.heads);
  if (entry == all.batch && all.offsets != nullptr)
    return clear_rest<T>(all, head, row * 32 + lane, all.queries * 32);
  if (entry >= all.batch) return;
  const AttentionCall call = of_entry<T>(all, entry);
  if (row >= call.queries) return;
  const T* const q = static_cast<const T*>(call.q) + row * call.q_row + head * call.size;
  const T* const k = static_cast<const T*>(call.k) + head * call.size;
  const T* const v = static_cast<const T*>(call.v) + head * call.size;
  const std::int64_t mask = entry * call.mask_batch + head * call.mask_head + row * call.mask_query;
  float* const query = queries[warp];
  for (int i = lane; i < call.size; i += 32) query[i] = wide(q[i]);
  __syncwarp();

  float out[kSlots] = {}, most = -INFINITY, sum = 0;
  for (int first = 0; first < call.keys; first += 32) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key < call.keys)
      score = fmaf(dot(query, k + key * call.k_row, call.size), call.scale,
                   mask_of<T>(call, mask + key * call.mask_key));
    const float top = fmaxf(most, warp_max(score)), base = top == -INFINITY ? 0 : top;
    const float before = expf(most - base), weight = expf(score - base);
    most = top;
    sum = fmaf(sum, before, warp_sum(weight));
#pragma unroll
    for (float& x : out) x *= before;
    mix(out, weight, v + first * call.v_row, call, min(32, call.keys - first), lane);
  }
  T* const to =
      static_cast<T*>(call.out) + (static_cast<std::int64_t>(row) * call.heads + head) * call.size;
#pragma unroll
  for (int i = 0; i < kSlots; ++i)
    if (lane + 32 * i < call.size) to[lane + 32 * i] = narrow<T>(out[i] / sum);
}

template <class T>
void run(const AttentionCall& call, const LaunchArgs& args) {
  const std::int64_t warps =
      static_cast<std::int64_t>(entries_of(call)) * call.heads * call.queries;
  const Grid grid{dim3(static_cast<unsigned>((warps + kWarps - 1) / kWarps)), dim3(kWarps * 32)};
  if (call.size <= 128)
    launch(stream_of(args), grid, plain_kernel<T, 4>, call);
  else
    launch(stream_of(args), grid, plain_kernel<T, kMostPlainSize / 32>, call);
}

}  // namespace

void plain_attention(RealType type, const AttentionCall& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run<float>(call, args);
  if (type == RealType::f16) return run<__half>(call, args);
  run<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
