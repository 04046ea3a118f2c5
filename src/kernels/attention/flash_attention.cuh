// Attention without a matrix of scores: a warp keeps 16 or 32 queries, their output so far,
// and for each the largest score so far and the sum of powers against it. Keys and values
// pass through shared memory, 64 at a time, the next while the present are worked on.
//
// Stretches of 64 keys that the mask shuts out for a whole entry of the batch are not read at
// all, and those it leaves alone do not look at it, so padding costs next to nothing.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_mask.cuh"
#include "kernels/attention/varlen.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/ptx/mma.cuh"

namespace sluice::kernels::cuda {

// Where a block's shared memory has what.
template <int kSize>
struct FlashPlaces {
  static constexpr int kTile = kKeys * kSize * 2;  // bytes
  static constexpr int kStages = 4 * kTile;        // keys and values, twice

  static int stretches(int keys) { return (keys + kKeys - 1) / kKeys; }
  static std::size_t bytes(int keys, bool keeps_mask) {
    const auto n = static_cast<std::size_t>(stretches(keys));
    return kStages + n * 8 + (keeps_mask ? n * (kKeys * sizeof(float)) : 0);
  }
  // 16 bytes of a row; neighbours in a column lie in different banks.
  __device__ static unsigned at(int row, int part) {
    const int turn = kSize == 32 ? row / 2 % 4 : row % 8;
    return static_cast<unsigned>(row * kSize * 2 + (part ^ turn) * 16);
  }
};

// `kRows` rows from `from` on, as far as they are there; the others become zeros.
template <class T, int kSize>
__device__ void fetch_rows(unsigned to, const T* from, std::int64_t step, int rows, int there,
                           int size) {
  constexpr int kParts = kSize / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kParts;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kParts, part = i % kParts;
    const bool is = row < there && part * 8 < size;
    copy_async(to + FlashPlaces<kSize>::at(row, part), is ? from + row * step + part * 8 : from,
               is);
  }
}

// What a warp knows of its queries.
template <class T, int kSize, int kTiles>
struct FlashWarp {
  unsigned q[kTiles][kSize / 16][4];
  float out[kTiles][kSize / 8][4];
  float most[kTiles][2], sum[kTiles][2];  // of rows lane / 4 and lane / 4 + 8
  // Where the lane's row of the first tiles begins. Two parts further is an XOR with 32, since
  // parts are turned by an XOR, and 16 rows further are turned the same.
  unsigned own_key, own_value;

  __device__ void begin(unsigned from, int first, int lane) {
    own_key = FlashPlaces<kSize>::at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    own_value = FlashPlaces<kSize>::at(lane % 16, lane / 16);
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const int row = first + m * 16 + lane % 16;
#pragma unroll
      for (int d = 0; d < kSize / 16; ++d)
        load_tiles(q[m][d], from + FlashPlaces<kSize>::at(row, d * 2 + lane / 16));
#pragma unroll
      for (int d = 0; d < kSize / 8; ++d)
#pragma unroll
        for (float& x : out[m][d]) x = 0;
      most[m][0] = most[m][1] = -INFINITY;
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
    for (int d = 0; d < kSize / 16; ++d)
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        unsigned right[4];
        load_tiles(right, k + (own_key ^ (d * 32)) + n * 16 * kSize * 2);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          multiply_add<T>(s[m][n * 2], q[m][d], right[0], right[1]);
          multiply_add<T>(s[m][n * 2 + 1], q[m][d], right[2], right[3]);
        }
      }
  }

  // Scores to powers against the largest so far; what was summed up before is set to match.
  __device__ void weigh(float (&s)[kTiles][kKeys / 8][4], float scale) {
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
        top = fmaxf(most[m][half], top * scale);
        const float base = top == -INFINITY ? 0 : top;
        const float before = power_of_two(most[m][half] - base);
        most[m][half] = top;
        float total = 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = half * 2; i < half * 2 + 2; ++i) {
            s[m][n][i] = power_of_two(fmaf(s[m][n][i], scale, -base));
            total += s[m][n][i];
          }
        sum[m][half] = fmaf(sum[m][half], before, total);
#pragma unroll
        for (int d = 0; d < kSize / 8; ++d) {
          out[m][d][half * 2] *= before;
          out[m][d][half * 2 + 1] *= before;
        }
      }
  }

  __device__ void mix(const float (&s)[kTiles][kKeys / 8][4], unsigned v) {
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      unsigned left[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        left[m][0] = pair_of<T>(s[m][k * 2][0], s[m][k * 2][1]);
        left[m][1] = pair_of<T>(s[m][k * 2][2], s[m][k * 2][3]);
        left[m][2] = pair_of<T>(s[m][k * 2 + 1][0], s[m][k * 2 + 1][1]);
        left[m][3] = pair_of<T>(s[m][k * 2 + 1][2], s[m][k * 2 + 1][3]);
      }
#pragma unroll
      for (int d = 0; d < kSize / 16; ++d) {
        unsigned right[4];
        load_tiles_transposed(right, v + (own_value ^ (d * 32)) + k * 16 * kSize * 2);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          multiply_add<T>(out[m][d * 2], left[m], right[0], right[1]);
          multiply_add<T>(out[m][d * 2 + 1], left[m], right[2], right[3]);
        }
      }
    }
  }
};

// Scores in powers of two, with the mask added. kGeneral: one that differs by head or query.
template <class T, int kTiles, bool kGeneral>
__device__ void add_mask(const AttentionCall& call, float (&s)[kTiles][kKeys / 8][4], float scale,
                         const float* kept, std::int64_t mask, int first, int key, int lane) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = key + n * 8 + lane % 4 * 2 + i;
      const float same = kept != nullptr ? kept[column] : column < call.keys ? 0 : -INFINITY;
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float more = same;
          [[maybe_unused]] const int row = first + m * 16 + half * 8 + lane / 4;
          if (kGeneral && column < call.keys && row < call.queries)
            more = mask_at<T>(call, mask + row * call.mask_query + column * call.mask_key);
          float& x = s[m][n][half * 2 + i];
          x = fmaf(x, scale, more);
        }
    }
}

// The output through shared memory, so that whole lines are written.
template <class T, int kSize, int kTiles>
__device__ void store(const AttentionCall& call, FlashWarp<T, kSize, kTiles>& warp,
                      unsigned char* own, T* out, int first, int lane) {
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = warp.sum[m][half];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const float share = 1 / sum;
      const int row = m * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int d = 0; d < kSize / 8; ++d)
        *reinterpret_cast<unsigned*>(own + FlashPlaces<kSize>::at(row, d) + lane % 4 * 4) =
            pair_of<T>(warp.out[m][d][half * 2] * share, warp.out[m][d][half * 2 + 1] * share);
    }
  __syncwarp();
  constexpr int kParts = kSize / 8;
  const std::int64_t step = static_cast<std::int64_t>(call.heads) * call.size;
  for (int i = lane; i < kTiles * 16 * kParts; i += 32) {
    const int row = i / kParts, part = i % kParts;
    if (first + row < call.queries && part * 8 < call.size)
      *reinterpret_cast<uint4*>(out + (first + row) * step + part * 8) =
          *reinterpret_cast<const uint4*>(own + FlashPlaces<kSize>::at(row, part));
  }
}

// What a block works on: some queries of one head of one entry of the batch, kTiles * 16 for
// each warp.
template <class T, int kSize, int kTiles>
struct FlashBlock {
  using Places = FlashPlaces<kSize>;

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int head, entry;
  const AttentionCall call;  // of the entry
  int rows, begin, first;    // queries, the block's first, the warp's first
  int stretches;
  unsigned stages;
  int* list;
  float *most, *kept;

  __device__ FlashBlock(const AttentionCall& of, int blocks)
      : head(static_cast<int>(blockIdx.x) / blocks % of.heads),
        entry(static_cast<int>(blockIdx.x) / blocks / of.heads),
        call(of_entry<T>(of, entry)) {
    rows = static_cast<int>(blockDim.x) / 32 * kTiles * 16;
    begin = static_cast<int>(blockIdx.x) % blocks * rows;
    first = begin + warp * kTiles * 16;
    stretches = (call.keys + kKeys - 1) / kKeys;
    stages = shared_address(shared_bytes);
    list = reinterpret_cast<int*>(shared_bytes + Places::kStages);
    most = reinterpret_cast<float*>(list + stretches);
    kept = most + stretches;
  }
  __device__ const T* own(const void* of) const {
    return static_cast<const T*>(of) + head * call.size;
  }
  __device__ unsigned stage(int i) const { return stages + i % 2 * 2 * Places::kTile; }

  // The queries come by the second stage, which nobody needs yet.
  __device__ void fetch_queries() const {
    fetch_rows<T, kSize>(stage(1), own(call.q) + begin * call.q_row, call.q_row, rows,
                         call.queries - begin, call.size);
    commit_copies();
  }
  // Keys and values, number i of the list.
  __device__ void fetch(int i) const {
    const int key = list[i] / 4 * kKeys, there = call.keys - key;
    fetch_rows<T, kSize>(stage(i), own(call.k) + key * call.k_row, call.k_row, kKeys, there,
                         call.size);
    fetch_rows<T, kSize>(stage(i) + Places::kTile, own(call.v) + key * call.v_row, call.v_row,
                         kKeys, there, call.size);
    commit_copies();
  }
  __device__ T* out() const { return static_cast<T*>(call.out) + head * call.size; }
};

template <class T, int kSize, int kTiles, bool kGeneral>
__global__ void __launch_bounds__(kMostWarps * 32, kSize == 32 ? 3 : 2)
    flash_kernel(const AttentionCall all, int blocks, bool keeps) {
  const int number = static_cast<int>(blockIdx.x);
  if (number / blocks / all.heads == all.batch)
    return clear_rest<T>(
        all, number / blocks % all.heads,
        number % blocks * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x),
        blocks * static_cast<int>(blockDim.x));
  const FlashBlock<T, kSize, kTiles> block(all, blocks);
  const AttentionCall& call = block.call;
  if (block.begin >= call.queries) return;
  block.fetch_queries();
  const int count = list_stretches<T>(call, block.entry, keeps, block.stretches, block.list,
                                      block.most, block.kept);
  block.fetch(0);
  await_copies<1>();
  __syncthreads();
  FlashWarp<T, kSize, kTiles> warp;
  warp.begin(block.stage(1), block.warp * kTiles * 16, block.lane);

  const float scale = call.scale * kLog2E;
  const std::int64_t mask = block.entry * call.mask_batch + block.head * call.mask_head;
  for (int i = 0; i < count; ++i) {
    await_copies<0>();
    __syncthreads();  // this stretch has come, and all are through with the one before
    if (i + 1 < count) block.fetch(i + 1);
    if (block.first >= call.queries) continue;
    float s[kTiles][kKeys / 8][4];
    warp.scores(s, block.stage(i));
    const int meet = block.list[i] % 4;
    if (meet != kLeftAlone)
      add_mask<T, kTiles, kGeneral>(call, s, scale, meet == kKeptMask ? block.kept : nullptr, mask,
                                    block.first, block.list[i] / 4 * kKeys, block.lane);
    warp.weigh(s, meet == kLeftAlone ? scale : 1.0f);
    warp.mix(s, block.stage(i) + FlashPlaces<kSize>::kTile);
  }
  __syncthreads();
  if (block.first >= call.queries) return;
  store<T, kSize, kTiles>(call, warp, shared_bytes + block.warp * kTiles * 16 * kSize * 2,
                          block.out(), block.first, block.lane);
}

// ---- launch ----

template <class T, int kSize>
struct Flash {
  static constexpr int kTiles = kSize == 128 ? 1 : 2;

  static bool keeps(const AttentionCall& call) {
    return call.mask != nullptr && call.mask_head == 0 && call.mask_query == 0 &&
           call.keys <= kMostKeptKeys;
  }
  static void prepare() {
    const auto most = static_cast<int>(FlashPlaces<kSize>::bytes(kMostKeptKeys, true));
    for (const auto kernel :
         {flash_kernel<T, kSize, kTiles, false>, flash_kernel<T, kSize, kTiles, true>})
      device::check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  }
  static void run(const AttentionCall& call, const LaunchArgs& args) {
    const int each = kTiles * 16, needed = (call.queries + each - 1) / each;  // warps
    const int blocks = (needed + kMostWarps - 1) / kMostWarps;
    const int warps = (needed + blocks - 1) / blocks;
    const Grid grid{dim3(static_cast<unsigned>(blocks * call.heads * entries_of(call))),
                    dim3(static_cast<unsigned>(warps * 32)),
                    FlashPlaces<kSize>::bytes(call.keys, keeps(call))};
    const bool general = call.mask != nullptr && !keeps(call);
    launch(stream_of(args), grid,
           general ? flash_kernel<T, kSize, kTiles, true> : flash_kernel<T, kSize, kTiles, false>,
           call, blocks, keeps(call));
  }
};

template <class T>
void prepare_flash(int size) {
  if (size <= 32) return Flash<T, 32>::prepare();
  if (size <= 64) return Flash<T, 64>::prepare();
  Flash<T, 128>::prepare();
}

template <class T>
void run_flash(const AttentionCall& call, const LaunchArgs& args) {
  if (call.size <= 32) return Flash<T, 32>::run(call, args);
  if (call.size <= 64) return Flash<T, 64>::run(call, args);
  Flash<T, 128>::run(call, args);
}

}  // namespace sluice::kernels::cuda
