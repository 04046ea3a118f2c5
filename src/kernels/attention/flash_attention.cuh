// Flash attention: scores are never written to memory. A warp holds 16 or 32 queries, their output
// and the running row maximum and sum of the online softmax. Keys and values pass through shared
// memory in blocks of 64, double-buffered with cp.async.
//
// Key blocks that the mask excludes for a whole sequence are skipped, and blocks that it does not
// change do not read it, so padding costs next to nothing.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_mask.cuh"
#include "kernels/attention/varlen.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/ptx/mma.cuh"

namespace sluice::kernels::cuda {

// The shared memory of a thread block.
template <int kHeadSize>
struct FlashSharedLayout {
  static constexpr int kTile = kKeys * kHeadSize * 2;  // bytes
  static constexpr int kStages = 4 * kTile;            // keys and values, two stages

  static int key_blocks(int keys) { return (keys + kKeys - 1) / kKeys; }
  static std::size_t bytes(int keys, bool has_shared_mask) {
    const auto n = static_cast<std::size_t>(key_blocks(keys));
    return kStages + n * 8 + (has_shared_mask ? n * (kKeys * sizeof(float)) : 0);
  }
  // Offset of a 16-byte chunk, swizzled so that ldmatrix has no bank conflicts.
  __device__ static unsigned at(int row, int chunk) {
    const int swizzle = kHeadSize == 32 ? row / 2 % 4 : row % 8;
    return static_cast<unsigned>(row * kHeadSize * 2 + (chunk ^ swizzle) * 16);
  }
};

// Copies `rows` rows to shared memory; rows from `valid` on become zeros.
template <class T, int kHeadSize>
__device__ void load_rows(unsigned to, const T* from, std::int64_t stride, int rows, int valid,
                          int size) {
  constexpr int kChunks = kHeadSize / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool is = row < valid && chunk * 8 < size;
    cp_async_16(to + FlashSharedLayout<kHeadSize>::at(row, chunk),
                is ? from + row * stride + chunk * 8 : from, is);
  }
}

// The registers of a warp: its queries, their output, and the state of the online softmax.
template <class T, int kHeadSize, int kTiles>
struct FlashWarp {
  unsigned q[kTiles][kHeadSize / 16][4];
  float out[kTiles][kHeadSize / 8][4];
  float row_max[kTiles][2], sum[kTiles][2];  // of rows lane / 4 and lane / 4 + 8
  // The lane's swizzled address in the first tiles. Two chunks further is an XOR with 32, since the
  // swizzle is an XOR, and 16 rows further have the same swizzle.
  unsigned own_key, own_value;

  __device__ void begin(unsigned from, int first, int lane) {
    own_key = FlashSharedLayout<kHeadSize>::at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    own_value = FlashSharedLayout<kHeadSize>::at(lane % 16, lane / 16);
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const int row = first + m * 16 + lane % 16;
#pragma unroll
      for (int d = 0; d < kHeadSize / 16; ++d)
        ldmatrix_x4(q[m][d], from + FlashSharedLayout<kHeadSize>::at(row, d * 2 + lane / 16));
#pragma unroll
      for (int d = 0; d < kHeadSize / 8; ++d)
#pragma unroll
        for (float& x : out[m][d]) x = 0;
      row_max[m][0] = row_max[m][1] = -INFINITY;
      sum[m][0] = sum[m][1] = 0;
    }
  }

  __device__ void scores(float (&s)[kTiles][kKeys / 8][4], unsigned k) const {
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (float& x : s[m][n]) x = 0;
#pragma unroll
    for (int d = 0; d < kHeadSize / 16; ++d)
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        unsigned right[4];
        ldmatrix_x4(right, k + (own_key ^ (d * 32)) + n * 16 * kHeadSize * 2);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          mma_m16n8k16<T>(s[m][n * 2], q[m][d], right[0], right[1]);
          mma_m16n8k16<T>(s[m][n * 2 + 1], q[m][d], right[2], right[3]);
        }
      }
  }

  // Online softmax: scores become exp2(score - row maximum); the earlier sum and output are
  // rescaled.
  __device__ void softmax(float (&s)[kTiles][kKeys / 8][4], float scale) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
          top = fmaxf(top, fmaxf(s[m][n][half * 2], s[m][n][half * 2 + 1]));
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
        top = fmaxf(row_max[m][half], top * scale);
        const float base = top == -INFINITY ? 0 : top;
        const float rescale_by = exp2_approx(row_max[m][half] - base);
        row_max[m][half] = top;
        float total = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = half * 2; i < half * 2 + 2; ++i) {
            s[m][n][i] = exp2_approx(fmaf(s[m][n][i], scale, -base));
            total += s[m][n][i];
          }
        sum[m][half] = fmaf(sum[m][half], rescale_by, total);
#pragma unroll
        for (int d = 0; d < kHeadSize / 8; ++d) {
          out[m][d][half * 2] *= rescale_by;
          out[m][d][half * 2 + 1] *= rescale_by;
        }
      }
  }

  __device__ void accumulate_values(const float (&s)[kTiles][kKeys / 8][4], unsigned v) {
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      unsigned left[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        left[m][0] = pack2<T>(s[m][k * 2][0], s[m][k * 2][1]);
        left[m][1] = pack2<T>(s[m][k * 2][2], s[m][k * 2][3]);
        left[m][2] = pack2<T>(s[m][k * 2 + 1][0], s[m][k * 2 + 1][1]);
        left[m][3] = pack2<T>(s[m][k * 2 + 1][2], s[m][k * 2 + 1][3]);
      }
#pragma unroll
      for (int d = 0; d < kHeadSize / 16; ++d) {
        unsigned right[4];
        ldmatrix_x4_trans(right, v + (own_value ^ (d * 32)) + k * 16 * kHeadSize * 2);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          mma_m16n8k16<T>(out[m][d * 2], left[m], right[0], right[1]);
          mma_m16n8k16<T>(out[m][d * 2 + 1], left[m], right[2], right[3]);
        }
      }
    }
  }
};

// Scales scores by log2(e) and adds the mask. kFullMask: the mask differs by head or query.
template <class T, int kTiles, bool kFullMask>
__device__ void add_mask(const AttentionCall& call, float (&s)[kTiles][kKeys / 8][4], float scale,
                         const float* shared_mask, std::int64_t mask, int first, int key,
                         int lane) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = key + n * 8 + lane % 4 * 2 + i;
      const float same = shared_mask != nullptr ? shared_mask[column]
                         : column < call.keys   ? 0
                                                : -INFINITY;
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float more = same;
          [[maybe_unused]] const int row = first + m * 16 + half * 8 + lane / 4;
          if (kFullMask && column < call.keys && row < call.queries)
            more = mask_at<T>(call, mask + row * call.mask_query + column * call.mask_key);
          float& x = s[m][n][half * 2 + i];
          x = fmaf(x, scale, more);
        }
    }
}

// Stages the output in shared memory so that stores are coalesced.
template <class T, int kHeadSize, int kTiles>
__device__ void store(const AttentionCall& call, FlashWarp<T, kHeadSize, kTiles>& warp,
                      unsigned char* staging, T* out, int head, int first, int lane) {
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = warp.sum[m][half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const float inverse_sum = 1 / sum;
      const int row = m * 16 + half * 8 + lane / 4;
      if (call.lse != nullptr && lane % 4 == 0 && first + row < call.queries)
        call.lse[std::int64_t{first + row} * call.heads + head] =
            log_sum_exp(warp.row_max[m][half], sum);
#pragma unroll
      for (int d = 0; d < kHeadSize / 8; ++d)
        *reinterpret_cast<unsigned*>(staging + FlashSharedLayout<kHeadSize>::at(row, d) +
                                     lane % 4 * 4) =
            pack2<T>(warp.out[m][d][half * 2] * inverse_sum,
                     warp.out[m][d][half * 2 + 1] * inverse_sum);
    }
  __syncwarp();
  constexpr int kChunks = kHeadSize / 8;
  const std::int64_t stride = static_cast<std::int64_t>(call.heads) * call.head_size;
  for (int i = lane; i < kTiles * 16 * kChunks; i += 32) {
    const int row = i / kChunks, chunk = i % kChunks;
    if (first + row < call.queries && chunk * 8 < call.head_size)
      *reinterpret_cast<uint4*>(out + (first + row) * stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(staging + FlashSharedLayout<kHeadSize>::at(row, chunk));
  }
}

// The work of a thread block: queries of one head of one sequence, kTiles * 16 for each warp.
template <class T, int kHeadSize, int kTiles>
struct FlashBlock {
  using Layout = FlashSharedLayout<kHeadSize>;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int head, sequence;
  const AttentionCall call;  // of the sequence
  int rows, begin, first;    // queries, the block's first, the warp's first
  int key_blocks;
  unsigned stages;
  int* blocks_to_read;
  float *mask_max, *shared_mask;

  __device__ FlashBlock(const AttentionCall& all, int blocks, int item)
      : head(item / blocks % all.heads),
        sequence(item / blocks / all.heads),
        call(sequence_call<T>(all, sequence)) {
    rows = static_cast<int>(blockDim.x) / 32 * kTiles * 16;
    begin = item % blocks * rows;
    first = begin + warp * kTiles * 16;
    key_blocks = (call.keys + kKeys - 1) / kKeys;
    stages = shared_address(shared_bytes);
    blocks_to_read = reinterpret_cast<int*>(shared_bytes + Layout::kStages);
    mask_max = reinterpret_cast<float*>(blocks_to_read + key_blocks);
    shared_mask = mask_max + key_blocks;
  }
  __device__ const T* head_of(const void* base) const {
    return static_cast<const T*>(base) + head * call.head_size;
  }
  __device__ unsigned stage(int i) const { return stages + i % 2 * 2 * Layout::kTile; }

  // Queries are staged in the second stage, which is not in use yet.
  __device__ void load_queries() const {
    load_rows<T, kHeadSize>(stage(1), head_of(call.q) + begin * call.q_row, call.q_row, rows,
                            call.queries - begin, call.head_size);
    cp_async_commit();
  }
  // Loads keys and values of the i-th block to read.
  __device__ void load_keys_values(int i) const {
    const int key = blocks_to_read[i] / 4 * kKeys, valid = call.keys - key;
    load_rows<T, kHeadSize>(stage(i), head_of(call.k) + key * call.k_row, call.k_row, kKeys, valid,
                            call.head_size);
    load_rows<T, kHeadSize>(stage(i) + Layout::kTile, head_of(call.v) + key * call.v_row,
                            call.v_row, kKeys, valid, call.head_size);
    cp_async_commit();
  }
  __device__ T* out() const { return static_cast<T*>(call.out) + head * call.head_size; }
};

// Item `item` of the grid's work: one of `blocks` parts of the queries of a head of a sequence.
template <class T, int kHeadSize, int kTiles, bool kFullMask>
__device__ __forceinline__ void flash_attention_item(const AttentionCall& all, int blocks,
                                                     bool use_shared_mask, int item) {
  if (item / blocks / all.heads == all.batch)
    return clear_padding<T>(
        all, item / blocks % all.heads,
        item % blocks * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x),
        blocks * static_cast<int>(blockDim.x));
  const FlashBlock<T, kHeadSize, kTiles> block(all, blocks, item);
  const AttentionCall& call = block.call;
  if (block.begin >= call.queries) return;
  block.load_queries();
  const int count = list_key_blocks<T>(call, block.sequence, use_shared_mask, block.key_blocks,
                                       block.blocks_to_read, block.mask_max, block.shared_mask);
  block.load_keys_values(0);
  cp_async_wait<1>();
  __syncthreads();
  FlashWarp<T, kHeadSize, kTiles> warp;
  warp.begin(block.stage(1), block.warp * kTiles * 16, block.lane);

  const float scale = call.scale * kLog2E;
  const std::int64_t mask = block.sequence * call.mask_batch + block.head * call.mask_head;
  for (int i = 0; i < count; ++i) {
    cp_async_wait<0>();
    __syncthreads();  // this block has arrived, and all warps are done with the previous one
    if (i + 1 < count) block.load_keys_values(i + 1);
    if (block.first >= call.queries) continue;
    float s[kTiles][kKeys / 8][4];
    warp.scores(s, block.stage(i));
    const int mode = block.blocks_to_read[i] % 4;
    if (mode != kNoMask)
      add_mask<T, kTiles, kFullMask>(call, s, scale,
                                     mode == kSharedMask ? block.shared_mask : nullptr, mask,
                                     block.first, block.blocks_to_read[i] / 4 * kKeys, block.lane);
    warp.softmax(s, mode == kNoMask ? scale : 1.0f);
    warp.accumulate_values(s, block.stage(i) + FlashSharedLayout<kHeadSize>::kTile);
  }
  __syncthreads();
  if (block.first >= call.queries) return;
  store<T, kHeadSize, kTiles>(call, warp, shared_bytes + block.warp * kTiles * 16 * kHeadSize * 2,
                              block.out(), block.head, block.first, block.lane);
}

template <class T, int kHeadSize, int kTiles, bool kFullMask>
__global__ void __launch_bounds__(kMaxWarps * 32, kHeadSize == 32 ? 3 : 2)
    flash_attention_fwd_sm80(const AttentionCall bucket, int blocks, bool use_shared_mask) {
  const AttentionCall all = live_call(bucket);
  const int items = sequence_count(all) * all.heads * blocks;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    if (item != static_cast<int>(blockIdx.x)) __syncthreads();  // shared memory is used again
    flash_attention_item<T, kHeadSize, kTiles, kFullMask>(all, blocks, use_shared_mask, item);
  }
}

// ---- launch ----

template <class T, int kHeadSize>
struct FlashAttention {
  static constexpr int kTiles = kHeadSize == 128 ? 1 : 2;

  static bool use_shared_mask(const AttentionCall& call) {
    return call.mask != nullptr && call.mask_head == 0 && call.mask_query == 0 &&
           call.keys <= kMaxSharedMaskKeys;
  }
  static void prepare() {
    const auto bytes =
        static_cast<int>(FlashSharedLayout<kHeadSize>::bytes(kMaxSharedMaskKeys, true));
    for (const auto kernel : {flash_attention_fwd_sm80<T, kHeadSize, kTiles, false>,
                              flash_attention_fwd_sm80<T, kHeadSize, kTiles, true>})
      device::check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  }
  static void run(const AttentionCall& call, const LaunchArgs& args) {
    const int each = kTiles * 16, needed = (call.queries + each - 1) / each;  // warps
    const int blocks = (needed + kMaxWarps - 1) / kMaxWarps;
    const int warps = (needed + blocks - 1) / blocks;
    const std::int64_t items = std::int64_t{blocks} * call.heads * sequence_count(call);
    const Grid grid{dim3(resident_blocks(call, items, kHeadSize == 32 ? 3 : 2)),
                    dim3(static_cast<unsigned>(warps * 32)),
                    FlashSharedLayout<kHeadSize>::bytes(call.keys, use_shared_mask(call))};
    const bool full_mask = call.mask != nullptr && !use_shared_mask(call);
    launch(stream_of(args), grid,
           full_mask ? flash_attention_fwd_sm80<T, kHeadSize, kTiles, true>
                     : flash_attention_fwd_sm80<T, kHeadSize, kTiles, false>,
           call, blocks, use_shared_mask(call));
  }
};

template <class T>
void prepare_flash_attention(int size) {
  if (size <= 32) return FlashAttention<T, 32>::prepare();
  if (size <= 64) return FlashAttention<T, 64>::prepare();
  FlashAttention<T, 128>::prepare();
}

template <class T>
void run_flash_attention(const AttentionCall& call, const LaunchArgs& args) {
  if (call.head_size <= 32) return FlashAttention<T, 32>::run(call, args);
  if (call.head_size <= 64) return FlashAttention<T, 64>::run(call, args);
  FlashAttention<T, 128>::run(call, args);
}

}  // namespace sluice::kernels::cuda
