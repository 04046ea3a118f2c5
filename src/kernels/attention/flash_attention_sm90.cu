// Flash attention for sm_90a. All keys and values of a head are loaded to shared memory once;
// warpgroups of 64 queries go over them in blocks of 64 keys. Both GEMMs are wgmma: q and the
// softmax weights are A operands in registers, keys and values B operands in shared memory.
//
// Limit: instruction issue. A block of 64 x 64 scores takes 256 cycles on the tensor cores and
// about 300 of arithmetic around them; warpgroups overlap the two. Measured on an H200: about 110
// us for 64 sequences of 192 to 384 tokens, 12 heads of size 64: 155 TFLOP/s.
#include "kernels/attention/flash_attention.cuh"
#include "kernels/attention/flash_attention_sm90.h"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kWarpgroupRows = 64, kWarpgroupThreads = 128;
constexpr int kMaxShared = 226 * 1024;  // bytes of a block, besides 1 KiB of static memory
constexpr int kHalfShared =
    (228 / 2 - 2) * 1024;  // leaves space for two blocks on a multiprocessor

// ---- wgmma with A in registers ----------------------------------------------------------------

#define SLUICE_ACC(n) "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
#define SLUICE_ACC_4(n) SLUICE_ACC(n), SLUICE_ACC(n + 1), SLUICE_ACC(n + 2), SLUICE_ACC(n + 3)
#define SLUICE_WGMMA_REGISTER_A(type)                                                             \
  /* more: adds to the accumulators */                                                            \
  template <int kTransposeB>                                                                      \
  __device__ static void mma(float(&sum)[8][4], const unsigned(&a)[4], MatrixDescriptor b,        \
                             int more) {                                                          \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %37, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, "      \
        "%35}, %36, more, 1, 1, %38;}"                                                            \
        : SLUICE_ACC_4(0), SLUICE_ACC_4(4)                                                        \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more), "n"(kTransposeB));       \
  }                                                                                               \
  template <int kTransposeB>                                                                      \
  __device__ static void mma(float(&sum)[4][4], const unsigned(&a)[4], MatrixDescriptor b,        \
                             int more) {                                                          \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %21, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, "    \
        "%18, %19}, %20, more, 1, 1, %22;}"                                                       \
        : SLUICE_ACC_4(0)                                                                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(more), "n"(kTransposeB));       \
  }

template <class T>
struct WgmmaRegisterA;
template <>
struct WgmmaRegisterA<__half> {
  SLUICE_WGMMA_REGISTER_A("f16")
};
template <>
struct WgmmaRegisterA<__nv_bfloat16> {
  SLUICE_WGMMA_REGISTER_A("bf16")
};
#undef SLUICE_WGMMA_REGISTER_A
#undef SLUICE_ACC_4
#undef SLUICE_ACC

// Keeps the compiler from moving accesses to registers of wgmma in flight across this point.
template <int N>
__device__ void fence_registers(unsigned (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+r"(four[0]), "+r"(four[1]), "+r"(four[2]), "+r"(four[3])::"memory");
}
template <int N>
__device__ void fence_registers(float (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])::"memory");
}

// ---- a block ----------------------------------------------------------------------------------

extern __shared__ __align__(1024) unsigned char resident_memory[];

// The shared memory of a thread block: keys, values, the list of key blocks and the mask.
template <int kHeadSize>
struct ResidentLayout {
  static constexpr int kTile = kKeys * kHeadSize * 2;  // bytes of 64 keys

  int key_blocks;  // of the longest sequence
  __host__ __device__ int values() const { return key_blocks * kTile; }
  __host__ __device__ int blocks_to_read() const { return 2 * values(); }
  __host__ __device__ int bytes(bool has_shared_mask) const {
    return blocks_to_read() + key_blocks * 8 + (has_shared_mask ? key_blocks * kKeys * 4 : 0);
  }
};

// Copies a block of 64 rows; rows from `valid` on become zeros. A thread copies the same chunk of
// rows with the same swizzle, so that addresses only advance.
template <class T, int kHeadSize, int kWarpgroups>
__device__ void load_key_block(unsigned to, const T* from, std::int64_t step, int valid) {
  constexpr int kChunks = kHeadSize / 8, kRowsAtOnce = kWarpgroups * kWarpgroupThreads / kChunks;
  static_assert(kRowsAtOnce % 8 == 0);
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % kChunks;
  int row = thread / kChunks;
  const T* at = from + row * step + chunk * 8;
  to += FlashSharedLayout<kHeadSize>::at(row, chunk);
#pragma unroll
  for (; row < kKeys;
       row += kRowsAtOnce, at += kRowsAtOnce * step, to += kRowsAtOnce * kHeadSize * 2)
    cp_async_16(to, row < valid ? at : from, row < valid);
}

template <class T, int kHeadSize>
struct WarpgroupQueries {
  using Warp = FlashWarp<T, kHeadSize, 1>;
  using Wgmma = WgmmaRegisterA<T>;

  // Loads two neighbours of a row; zeros for a row beyond the last.
  __device__ static unsigned load_two(const T* row, bool is, int column) {
    return is ? *reinterpret_cast<const unsigned*>(row + column) : 0;
  }

  __device__ static void begin(Warp& warp, const AttentionCall& call, const T* q, int first,
                               int lane) {
    const int above = first + lane / 4, below = above + 8, column = lane % 4 * 2;
    const T *const high = q + above * call.q_row, *const low = q + below * call.q_row;
    const bool is_high = above < call.queries, is_low = below < call.queries;
#pragma unroll
    for (int d = 0; d < kHeadSize / 16; ++d) {
      warp.q[0][d][0] = load_two(high, is_high, d * 16 + column);
      warp.q[0][d][1] = load_two(low, is_low, d * 16 + column);
      warp.q[0][d][2] = load_two(high, is_high, d * 16 + column + 8);
      warp.q[0][d][3] = load_two(low, is_low, d * 16 + column + 8);
    }
#pragma unroll
    for (auto& four : warp.out[0])
      for (float& x : four) x = 0;
    warp.row_max[0][0] = warp.row_max[0][1] = -INFINITY;
    warp.sum[0][0] = warp.sum[0][1] = 0;
  }

  __device__ static void compute_scores(Warp& warp, float (&s)[kKeys / 8][4], unsigned keys) {
    const MatrixDescriptor b = swizzled_descriptor<kHeadSize * 2>(keys);
    fence_registers(warp.q[0]);
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHeadSize / 16; ++d)
      Wgmma::template mma<0>(s, warp.q[0][d], b + d * (32 / 16), d > 0);
    wgmma_commit();
    wgmma_wait<0>();
    fence_registers(warp.q[0]);
    fence_registers(s);
  }

  // Online softmax. The row maximum is raised, and the earlier sum and output rescaled, only where
  // the new maximum exceeds it by more than the threshold, which is rare after the first block.
  __device__ static void softmax(Warp& warp, float (&s)[kKeys / 8][4], float scale) {
    constexpr float kRescaleThreshold = 8;  // weights stay below 2^8
    float top[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
        top[half] = fmaxf(top[half], fmaxf(s[n][half * 2], s[n][half * 2 + 1]));
      top[half] = fmaxf(top[half], __shfl_xor_sync(kAllLanes, top[half], 1));
      top[half] = fmaxf(top[half], __shfl_xor_sync(kAllLanes, top[half], 2)) * scale;
    }
    float(&row_max)[2] = warp.row_max[0];
    if (__any_sync(kAllLanes, top[0] > row_max[0] + kRescaleThreshold ||
                                  top[1] > row_max[1] + kRescaleThreshold))
      rescale(warp, top);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = row_max[half] == -INFINITY ? 0 : row_max[half];
      float total = 0;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s[n][i] = exp2_approx(fmaf(s[n][i], scale, -base));
          total += s[n][i];
        }
      warp.sum[0][half] += total;
    }
  }

  __device__ static void rescale(Warp& warp, const float (&top)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float row_max = fmaxf(warp.row_max[0][half], top[half]);
      const float rescale_by =
          exp2_approx(warp.row_max[0][half] - (row_max == -INFINITY ? 0 : row_max));
      warp.row_max[0][half] = row_max;
      warp.sum[0][half] *= rescale_by;
#pragma unroll
      for (auto& four : warp.out[0]) {
        four[half * 2] *= rescale_by;
        four[half * 2 + 1] *= rescale_by;
      }
    }
  }

  __device__ static void accumulate_values(Warp& warp, const float (&s)[kKeys / 8][4],
                                           unsigned values) {
    unsigned weights[kKeys / 16][4];
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      weights[k][0] = pack2<T>(s[k * 2][0], s[k * 2][1]);
      weights[k][1] = pack2<T>(s[k * 2][2], s[k * 2][3]);
      weights[k][2] = pack2<T>(s[k * 2 + 1][0], s[k * 2 + 1][1]);
      weights[k][3] = pack2<T>(s[k * 2 + 1][2], s[k * 2 + 1][3]);
    }
    const MatrixDescriptor b = swizzled_descriptor<kHeadSize * 2>(values);
    fence_registers(weights);
    fence_registers(warp.out[0]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      Wgmma::template mma<1>(warp.out[0], weights[k], b + k * (16 * kHeadSize * 2 / 16), 1);
    wgmma_commit();
    wgmma_wait<0>();
    fence_registers(weights);
    fence_registers(warp.out[0]);
  }
};

// Pairs of lanes exchange halves of two 8-column groups so that each stores 8 bytes.
template <class T, int kHeadSize>
__device__ void store_output(const AttentionCall& call, FlashWarp<T, kHeadSize, 1>& warp, T* out,
                             int first, int lane) {
  const std::int64_t step = static_cast<std::int64_t>(call.heads) * kHeadSize;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = warp.sum[0][half];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    const float inverse_sum = 1 / sum;
    const int row = first + half * 8 + lane / 4;
#pragma unroll
    for (int d = 0; d < kHeadSize / 8; d += 2) {
      unsigned two[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        two[i] = pack2<T>(warp.out[0][d + i][half * 2] * inverse_sum,
                          warp.out[0][d + i][half * 2 + 1] * inverse_sum);
      const unsigned kept = odd ? two[1] : two[0];
      const unsigned got = __shfl_xor_sync(kAllLanes, odd ? two[0] : two[1], 1);
      const int column = (d + lane % 2) * 8 + lane % 4 / 2 * 4;
      if (row < call.queries)
        *reinterpret_cast<uint2*>(out + row * step + column) =
            odd ? make_uint2(got, kept) : make_uint2(kept, got);
    }
  }
}

// How many blocks share the queries of a head, so that all multiprocessors have work.
__host__ __device__ int splits_of(int blocks, int heads, int queries, int rows) {
  const int needed = heads > 0 ? (blocks + heads - 1) / heads : 1;
  const int most = (queries + rows - 1) / rows;
  return needed < most ? needed : most;
}

// Item `item` of the grid's work: one of `splits` parts of the queries of a head of a sequence.
template <class T, int kHeadSize, int kWarpgroups>
__device__ __forceinline__ void flash_attention_item(const AttentionCall& all, int splits,
                                                     bool use_shared_mask, int item) {
  using Queries = WarpgroupQueries<T, kHeadSize>;
  const ResidentLayout<kHeadSize> layout{(all.keys + kKeys - 1) / kKeys};
  const int head = item / splits % all.heads;
  const int sequence = item / splits / all.heads, thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32, group = thread / kWarpgroupThreads;
  if (sequence == all.batch)
    return clear_padding<T>(all, head, item % splits * kWarpgroups * kWarpgroupThreads + thread,
                            splits * kWarpgroups * kWarpgroupThreads);
  const AttentionCall call = sequence_call<T>(all, sequence);
  const int begin = item % splits * kWarpgroups * kWarpgroupRows;
  if (begin >= call.queries) return;

  int* const blocks_to_read = reinterpret_cast<int*>(resident_memory + layout.blocks_to_read());
  float* const mask_max = reinterpret_cast<float*>(blocks_to_read + layout.key_blocks);
  float* const shared_mask = mask_max + layout.key_blocks;
  const int count =
      list_key_blocks<T>(call, sequence, use_shared_mask, (call.keys + kKeys - 1) / kKeys,
                         blocks_to_read, mask_max, shared_mask);
  const unsigned keys = shared_address(resident_memory), values = keys + layout.values();
  const auto head_of = [&](const void* base) {
    return static_cast<const T*>(base) + head * kHeadSize;
  };
  for (int i = 0; i < count; ++i) {
    const int first = blocks_to_read[i] / 4 * kKeys, valid = call.keys - first,
              at = i * layout.kTile;
    load_key_block<T, kHeadSize, kWarpgroups>(keys + at, head_of(call.k) + first * call.k_row,
                                              call.k_row, valid);
    load_key_block<T, kHeadSize, kWarpgroups>(values + at, head_of(call.v) + first * call.v_row,
                                              call.v_row, valid);
  }
  cp_async_commit();
  cp_async_wait<0>();
  fence_proxy_async();
  __syncthreads();

  const float scale = call.scale * kLog2E;
  for (int row = begin + group * kWarpgroupRows; row < call.queries;
       row += splits * kWarpgroups * kWarpgroupRows) {
    const int first = row + thread % kWarpgroupThreads / 32 * 16;
    typename Queries::Warp warp;
    Queries::begin(warp, call, head_of(call.q), first, lane);
    for (int i = 0; i < count; ++i) {
      float s[1][kKeys / 8][4];
      Queries::compute_scores(warp, s[0], keys + i * layout.kTile);
      const int mode = blocks_to_read[i] % 4;
      if (mode != kNoMask)
        add_mask<T, 1, false>(call, s, scale, mode == kSharedMask ? shared_mask : nullptr, 0, first,
                              blocks_to_read[i] / 4 * kKeys, lane);
      Queries::softmax(warp, s[0], mode == kNoMask ? scale : 1.0f);
      Queries::accumulate_values(warp, s[0], values + i * layout.kTile);
    }
    store_output<T, kHeadSize>(call, warp, static_cast<T*>(call.out) + head * kHeadSize, first,
                               lane);
  }
}

// splits 0: for as many blocks as are launched.
template <class T, int kHeadSize, int kWarpgroups>
__global__ void __launch_bounds__(kWarpgroups* kWarpgroupThreads, kWarpgroups == 2 ? 2 : 1)
    flash_attention_fwd_sm90(const AttentionCall bucket, int splits, bool use_shared_mask) {
  const AttentionCall all = live_call(bucket);
  if (splits == 0)
    splits = splits_of(static_cast<int>(gridDim.x), all.batch * all.heads, all.live->longest,
                       kWarpgroups * kWarpgroupRows);
  const int items = sequence_count(all) * all.heads * splits;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    if (item != static_cast<int>(blockIdx.x)) __syncthreads();  // shared memory is used again
    flash_attention_item<T, kHeadSize, kWarpgroups>(all, splits, use_shared_mask, item);
  }
}

// ---- launches ---------------------------------------------------------------------------------

int key_blocks_of(const AttentionCall& call) { return (call.keys + kKeys - 1) / kKeys; }

template <class T, int kHeadSize, int kWarpgroups>
void enqueue(const AttentionCall& call, const LaunchArgs& args) {
  const int resident = multiprocessors() * (kWarpgroups == 2 ? 2 : 1);
  const int splits =
      splits_of(resident, call.batch * call.heads, call.queries, kWarpgroups * kWarpgroupRows);
  const std::int64_t items = std::int64_t{sequence_count(call)} * call.heads * splits;
  const bool use_shared_mask = call.mask != nullptr;
  const auto bytes = static_cast<std::size_t>(
      ResidentLayout<kHeadSize>{key_blocks_of(call)}.bytes(use_shared_mask));
  launch(
      stream_of(args),
      {dim3(call.live != nullptr ? static_cast<unsigned>(resident) : static_cast<unsigned>(items)),
       dim3(kWarpgroups * kWarpgroupThreads), bytes},
      flash_attention_fwd_sm90<T, kHeadSize, kWarpgroups>, call, call.live != nullptr ? 0 : splits,
      use_shared_mask);
}

// Two blocks of two warpgroups on a multiprocessor, or one of four.
template <class T, int kHeadSize>
void enqueue_size(const AttentionCall& call, const LaunchArgs& args) {
  ResidentLayout<kHeadSize>{key_blocks_of(call)}.bytes(call.mask != nullptr) <= kHalfShared
      ? enqueue<T, kHeadSize, 2>(call, args)
      : enqueue<T, kHeadSize, 4>(call, args);
}

template <class T, int kHeadSize>
void prepare_size() {
  for (const auto kernel :
       {flash_attention_fwd_sm90<T, kHeadSize, 2>, flash_attention_fwd_sm90<T, kHeadSize, 4>})
    device::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared));
}

}  // namespace

bool flash_attention_sm90_supports(const AttentionCall& call) {
  const int key_blocks = key_blocks_of(call);
  const bool fits =
      (call.head_size == 32 && ResidentLayout<32>{key_blocks}.bytes(true) <= kMaxShared) ||
      (call.head_size == 64 && ResidentLayout<64>{key_blocks}.bytes(true) <= kMaxShared);
  return fits && call.mask_head == 0 && call.mask_query == 0;
}

void prepare_flash_attention_sm90(RealType type, int size) {
  const bool is_bf16 = type == RealType::bf16;
  if (size == 32) return is_bf16 ? prepare_size<__nv_bfloat16, 32>() : prepare_size<__half, 32>();
  is_bf16 ? prepare_size<__nv_bfloat16, 64>() : prepare_size<__half, 64>();
}

void flash_attention_sm90(RealType type, const AttentionCall& call, const LaunchArgs& args) {
  const bool is_bf16 = type == RealType::bf16;
  if (call.head_size == 32)
    return is_bf16 ? enqueue_size<__nv_bfloat16, 32>(call, args)
                   : enqueue_size<__half, 32>(call, args);
  is_bf16 ? enqueue_size<__nv_bfloat16, 64>(call, args) : enqueue_size<__half, 64>(call, args);
}

}  // namespace sluice::kernels::cuda
