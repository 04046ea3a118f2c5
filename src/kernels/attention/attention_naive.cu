// Attention for any element type, head size and alignment: one warp for each query. For the scores
// each lane takes one of 32 keys; for the output each lane takes columns.
#include "kernels/attention/varlen.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarps = 4;

template <class T>
__device__ float mask_value(const AttentionCall& call, std::int64_t at) {
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

// Adds the values of up to 32 keys; lane j holds the weight of key j.
template <class T, int kSlots>
__device__ void accumulate_values(float (&out)[kSlots], float weight, const T* values,
                                  const AttentionCall& call, int keys, int lane) {
  for (int j = 0; j < keys; ++j) {
    const float w = __shfl_sync(kAllLanes, weight, j);
    const T* const value = values + j * call.v_row;
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (lane + 32 * i < call.head_size) out[i] = fmaf(w, wide(value[lane + 32 * i]), out[i]);
  }
}

// Query `id` of all heads and sequences, by one warp; `query` is its shared memory.
template <class T, int kSlots>
__device__ void attend(const AttentionCall& all, std::int64_t id, float* query, int lane) {
  const int row = static_cast<int>(id % all.queries);
  const int head = static_cast<int>(id / all.queries % all.heads);
  const int sequence = static_cast<int>(id / all.queries / all.heads);
  if (sequence == all.batch && all.cu_seqlens != nullptr)
    return clear_padding<T>(all, head, row * 32 + lane, all.queries * 32);
  const AttentionCall call = sequence_call<T>(all, sequence);
  if (row >= call.queries) return;
  const T* const q = static_cast<const T*>(call.q) + row * call.q_row + head * call.head_size;
  const T* const k = static_cast<const T*>(call.k) + head * call.head_size;
  const T* const v = static_cast<const T*>(call.v) + head * call.head_size;
  const std::int64_t mask =
      sequence * call.mask_batch + head * call.mask_head + row * call.mask_query;
  for (int i = lane; i < call.head_size; i += 32) query[i] = wide(q[i]);
  __syncwarp();

  float out[kSlots] = {}, row_max = -INFINITY, sum = 0;
  for (int first = 0; first < call.keys; first += 32) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key < call.keys)
      score = fmaf(dot(query, k + key * call.k_row, call.head_size), call.scale,
                   mask_value<T>(call, mask + key * call.mask_key));
    const float top = fmaxf(row_max, warp_max(score)), base = top == -INFINITY ? 0 : top;
    const float rescale_by = expf(row_max - base), weight = expf(score - base);
    row_max = top;
    sum = fmaf(sum, rescale_by, warp_sum(weight));
#pragma unroll
    for (float& x : out) x *= rescale_by;
    accumulate_values(out, weight, v + first * call.v_row, call, min(32, call.keys - first), lane);
  }
  T* const to = static_cast<T*>(call.out) +
                (static_cast<std::int64_t>(row) * call.heads + head) * call.head_size;
#pragma unroll
  for (int i = 0; i < kSlots; ++i)
    if (lane + 32 * i < call.head_size) to[lane + 32 * i] = narrow<T>(out[i] / sum);
  if (call.lse != nullptr && lane == 0)
    call.lse[static_cast<std::int64_t>(row) * call.heads + head] = row_max + logf(sum);
  __syncwarp();  // before `query` is used again
}

// Head sizes up to kSlots * 32.
template <class T, int kSlots>
__global__ void attention_fwd_naive(const AttentionCall bucket) {
  __shared__ float queries[kWarps][kSlots * 32];
  const AttentionCall all = live_call(bucket);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t items =
      static_cast<std::int64_t>(sequence_count(all)) * all.heads * all.queries;
  for (std::int64_t id = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; id < items;
       id += static_cast<std::int64_t>(gridDim.x) * kWarps)
    attend<T, kSlots>(all, id, queries[warp], lane);
}

template <class T>
void run(const AttentionCall& call, const LaunchArgs& args) {
  const std::int64_t warps =
      static_cast<std::int64_t>(sequence_count(call)) * call.heads * call.queries;
  const Grid grid{dim3(resident_blocks(call, (warps + kWarps - 1) / kWarps, 16)),
                  dim3(kWarps * 32)};
  if (call.head_size <= 128)
    launch(stream_of(args), grid, attention_fwd_naive<T, 4>, call);
  else
    launch(stream_of(args), grid, attention_fwd_naive<T, kMaxNaiveHeadSize / 32>, call);
}

}  // namespace

void naive_attention(RealType type, const AttentionCall& call, const LaunchArgs& args) {
  if (type == RealType::f32) return run<float>(call, args);
  if (type == RealType::f16) return run<__half>(call, args);
  run<__nv_bfloat16>(call, args);
}

}  // namespace sluice::kernels::cuda
