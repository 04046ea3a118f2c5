// Keys and values of a head are copied to shared memory once, where groups of four warps take 64
// queries after the other through them, 64 keys at a time. Scores stay in registers, where the
// tensor cores leave them, and go back from there as weights of the values.
//
// Limit: instructions. 64 x 64 scores are 256 cycles of the tensor cores and about 300 of the
// arithmetic around them; groups that are at one of these leave the other to others. Seen on an
// H200: about 110 us for 64 sequences of 192 to 384 tokens, 12 heads of 64: 155 TFLOP/s. Half of
// the time no warp is ready, so that what would help is the next products under way beside the
// arithmetic.
#include "kernels/attention/flash_attention.cuh"
#include "kernels/attention/flash_attention_sm90.h"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kGroupRows = 64, kGroupThreads = 128;
constexpr int kMostShared = 226 * 1024;            // bytes of a block, and 1 KiB that is static
constexpr int kHalfShared = (228 / 2 - 2) * 1024;  // with which there is room for two

// ---- products whose left side is in registers -------------------------------------------------

#define SLUICE_SUMS_OF(n) "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
#define SLUICE_SUMS_OF_4(n) \
  SLUICE_SUMS_OF(n), SLUICE_SUMS_OF(n + 1), SLUICE_SUMS_OF(n + 2), SLUICE_SUMS_OF(n + 3)
#define SLUICE_BY_REGISTERS(type)                                                                 \
  /* 64 x 64; `more`: to what is there */                                                         \
  template <int kTurned>                                                                          \
  __device__ static void add(float(&sum)[8][4], const unsigned(&left)[4], Side right, int more) { \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %37, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, "      \
        "%35}, %36, more, 1, 1, %38;}"                                                            \
        : SLUICE_SUMS_OF_4(0), SLUICE_SUMS_OF_4(4)                                                \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more),          \
          "n"(kTurned));                                                                          \
  }                                                                                               \
  template <int kTurned>                                                                          \
  __device__ static void add(float(&sum)[4][4], const unsigned(&left)[4], Side right, int more) { \
    asm volatile(                                                                                 \
        "{.reg .pred more; setp.ne.b32 more, %21, 0; "                                            \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                               \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, "    \
        "%18, %19}, %20, more, 1, 1, %22;}"                                                       \
        : SLUICE_SUMS_OF_4(0)                                                                     \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(more),          \
          "n"(kTurned));                                                                          \
  }

template <class T>
struct ByRegisters;
template <>
struct ByRegisters<__half> {
  SLUICE_BY_REGISTERS("f16")
};
template <>
struct ByRegisters<__nv_bfloat16> {
  SLUICE_BY_REGISTERS("bf16")
};
#undef SLUICE_BY_REGISTERS
#undef SLUICE_SUMS_OF_4
#undef SLUICE_SUMS_OF

// What products under way read and write is there when they begin, and is not touched before they
// are awaited.
template <int N>
__device__ void hold(unsigned (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+r"(four[0]), "+r"(four[1]), "+r"(four[2]), "+r"(four[3])::"memory");
}
template <int N>
__device__ void hold(float (&registers)[N][4]) {
#pragma unroll
  for (auto& four : registers)
    asm volatile("" : "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])::"memory");
}

// ---- a block ----------------------------------------------------------------------------------

extern __shared__ __align__(1024) unsigned char resident[];

// Where its shared memory has what: keys, values, and what a mask says of them.
template <int kSize>
struct Resident {
  static constexpr int kTile = kKeys * kSize * 2;  // bytes of 64 keys

  int stretches;  // the most there are
  __host__ __device__ int values() const { return stretches * kTile; }
  __host__ __device__ int list() const { return 2 * values(); }
  __host__ __device__ int bytes(bool keeps_mask) const {
    return list() + stretches * 8 + (keeps_mask ? stretches * kKeys * 4 : 0);
  }
};

// 64 rows, those that are not there as zeros. A thread has the same part of rows that are turned
// alike, so that it only counts on.
template <class T, int kSize, int kGroups>
__device__ void fetch_keys(unsigned to, const T* from, std::int64_t step, int there) {
  constexpr int kParts = kSize / 8, kAtOnce = kGroups * kGroupThreads / kParts;
  static_assert(kAtOnce % 8 == 0);
  const int thread = static_cast<int>(threadIdx.x), part = thread % kParts;
  int row = thread / kParts;
  const T* at = from + row * step + part * 8;
  to += FlashPlaces<kSize>::at(row, part);
#pragma unroll
  for (; row < kKeys; row += kAtOnce, at += kAtOnce * step, to += kAtOnce * kSize * 2)
    copy_async(to, row < there ? at : from, row < there);
}

template <class T, int kSize>
struct GroupQueries {
  using Warp = FlashWarp<T, kSize, 1>;
  using Products = ByRegisters<T>;

  // Two neighbours of a row; zeros where there is none.
  __device__ static unsigned two_of(const T* row, bool is, int column) {
    return is ? *reinterpret_cast<const unsigned*>(row + column) : 0;
  }

  __device__ static void begin(Warp& warp, const AttentionCall& call, const T* q, int first,
                               int lane) {
    const int above = first + lane / 4, below = above + 8, column = lane % 4 * 2;
    const T *const high = q + above * call.q_row, *const low = q + below * call.q_row;
    const bool is_high = above < call.queries, is_low = below < call.queries;
#pragma unroll
    for (int d = 0; d < kSize / 16; ++d) {
      warp.q[0][d][0] = two_of(high, is_high, d * 16 + column);
      warp.q[0][d][1] = two_of(low, is_low, d * 16 + column);
      warp.q[0][d][2] = two_of(high, is_high, d * 16 + column + 8);
      warp.q[0][d][3] = two_of(low, is_low, d * 16 + column + 8);
    }
#pragma unroll
    for (auto& four : warp.out[0])
      for (float& x : four) x = 0;
    warp.most[0][0] = warp.most[0][1] = -INFINITY;
    warp.sum[0][0] = warp.sum[0][1] = 0;
  }

  __device__ static void score(Warp& warp, float (&s)[kKeys / 8][4], unsigned keys) {
    const Side right = side_at<kSize * 2>(keys);
    hold(warp.q[0]);
    begin_products();
#pragma unroll
    for (int d = 0; d < kSize / 16; ++d)
      Products::template add<0>(s, warp.q[0][d], right + d * (32 / 16), d > 0);
    end_products();
    await_products<0>();
    hold(warp.q[0]);
    hold(s);
  }

  // Scores to powers against the largest so far, or one that is hardly less: what was summed up
  // before is set to match where it is much less, which is seldom but for the first.
  __device__ static void weigh(Warp& warp, float (&s)[kKeys / 8][4], float scale) {
    constexpr float kHardly = 8;  // powers of up to 256, and sums of those
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
    float(&most)[2] = warp.most[0];
    if (__any_sync(kAllLanes, top[0] > most[0] + kHardly || top[1] > most[1] + kHardly))
      raise(warp, top);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = most[half] == -INFINITY ? 0 : most[half];
      float total = 0;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          s[n][i] = power_of_two(fmaf(s[n][i], scale, -base));
          total += s[n][i];
        }
      warp.sum[0][half] += total;
    }
  }

  __device__ static void raise(Warp& warp, const float (&top)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float most = fmaxf(warp.most[0][half], top[half]);
      const float before = power_of_two(warp.most[0][half] - (most == -INFINITY ? 0 : most));
      warp.most[0][half] = most;
      warp.sum[0][half] *= before;
#pragma unroll
      for (auto& four : warp.out[0]) {
        four[half * 2] *= before;
        four[half * 2 + 1] *= before;
      }
    }
  }

  __device__ static void mix(Warp& warp, const float (&s)[kKeys / 8][4], unsigned values) {
    unsigned left[kKeys / 16][4];
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      left[k][0] = pair_of<T>(s[k * 2][0], s[k * 2][1]);
      left[k][1] = pair_of<T>(s[k * 2][2], s[k * 2][3]);
      left[k][2] = pair_of<T>(s[k * 2 + 1][0], s[k * 2 + 1][1]);
      left[k][3] = pair_of<T>(s[k * 2 + 1][2], s[k * 2 + 1][3]);
    }
    const Side right = side_at<kSize * 2>(values);
    hold(left);
    hold(warp.out[0]);
    begin_products();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      Products::template add<1>(warp.out[0], left[k], right + k * (16 * kSize * 2 / 16), 1);
    end_products();
    await_products<0>();
    hold(left);
    hold(warp.out[0]);
  }
};

// Neighbours exchange what they have of two columns of eight, so that each has half of one.
template <class T, int kSize>
__device__ void store_queries(const AttentionCall& call, FlashWarp<T, kSize, 1>& warp, T* out,
                              int first, int lane) {
  const std::int64_t step = static_cast<std::int64_t>(call.heads) * kSize;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = warp.sum[0][half];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    const float share = 1 / sum;
    const int row = first + half * 8 + lane / 4;
#pragma unroll
    for (int d = 0; d < kSize / 8; d += 2) {
      unsigned two[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        two[i] = pair_of<T>(warp.out[0][d + i][half * 2] * share,
                            warp.out[0][d + i][half * 2 + 1] * share);
      const unsigned own = odd ? two[1] : two[0];
      const unsigned got = __shfl_xor_sync(kAllLanes, odd ? two[0] : two[1], 1);
      const int column = (d + lane % 2) * 8 + lane % 4 / 2 * 4;
      if (row < call.queries)
        *reinterpret_cast<uint2*>(out + row * step + column) =
            odd ? make_uint2(got, own) : make_uint2(own, got);
    }
  }
}

// `parts` blocks share the queries of a head.
template <class T, int kSize, int kGroups>
__global__ void __launch_bounds__(kGroups* kGroupThreads, kGroups == 2 ? 2 : 1)
    attend_on_hopper(const AttentionCall all, int parts, bool keeps) {
  using Group = GroupQueries<T, kSize>;
  const Resident<kSize> places{(all.keys + kKeys - 1) / kKeys};
  const int block = static_cast<int>(blockIdx.x), head = block / parts % all.heads;
  const int entry = block / parts / all.heads, thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32, group = thread / kGroupThreads;
  if (entry == all.batch)
    return clear_rest<T>(all, head, block % parts * kGroups * kGroupThreads + thread,
                         parts * kGroups * kGroupThreads);
  const AttentionCall call = of_entry<T>(all, entry);
  const int begin = block % parts * kGroups * kGroupRows;
  if (begin >= call.queries) return;

  int* const list = reinterpret_cast<int*>(resident + places.list());
  float* const most = reinterpret_cast<float*>(list + places.stretches);
  float* const kept = most + places.stretches;
  const int count =
      list_stretches<T>(call, entry, keeps, (call.keys + kKeys - 1) / kKeys, list, most, kept);
  const unsigned keys = shared_address(resident), values = keys + places.values();
  const auto own = [&](const void* of) { return static_cast<const T*>(of) + head * kSize; };
  for (int i = 0; i < count; ++i) {
    const int first = list[i] / 4 * kKeys, there = call.keys - first, at = i * places.kTile;
    fetch_keys<T, kSize, kGroups>(keys + at, own(call.k) + first * call.k_row, call.k_row, there);
    fetch_keys<T, kSize, kGroups>(values + at, own(call.v) + first * call.v_row, call.v_row, there);
  }
  commit_copies();
  await_copies<0>();
  show_to_others();
  __syncthreads();

  const float scale = call.scale * kLog2E;
  for (int row = begin + group * kGroupRows; row < call.queries;
       row += parts * kGroups * kGroupRows) {
    const int first = row + thread % kGroupThreads / 32 * 16;
    typename Group::Warp warp;
    Group::begin(warp, call, own(call.q), first, lane);
    for (int i = 0; i < count; ++i) {
      float s[1][kKeys / 8][4];
      Group::score(warp, s[0], keys + i * places.kTile);
      const int meet = list[i] % 4;
      if (meet != kLeftAlone)
        add_mask<T, 1, false>(call, s, scale, meet == kKeptMask ? kept : nullptr, 0, first,
                              list[i] / 4 * kKeys, lane);
      Group::weigh(warp, s[0], meet == kLeftAlone ? scale : 1.0f);
      Group::mix(warp, s[0], values + i * places.kTile);
    }
    store_queries<T, kSize>(call, warp, static_cast<T*>(call.out) + head * kSize, first, lane);
  }
}

// ---- launches ---------------------------------------------------------------------------------

int stretches_of(const AttentionCall& call) { return (call.keys + kKeys - 1) / kKeys; }

template <class T, int kSize, int kGroups>
void enqueue(const AttentionCall& call, const LaunchArgs& args) {
  const int heads = call.batch * call.heads, rows = kGroups * kGroupRows;
  const int wanted = multiprocessors() * (kGroups == 2 ? 2 : 1);
  const int parts = std::clamp((wanted + heads - 1) / heads, 1, (call.queries + rows - 1) / rows);
  const bool keeps = call.mask != nullptr;
  const auto bytes = static_cast<std::size_t>(Resident<kSize>{stretches_of(call)}.bytes(keeps));
  launch(stream_of(args),
         {dim3(static_cast<unsigned>(entries_of(call) * call.heads * parts)),
          dim3(kGroups * kGroupThreads), bytes},
         attend_on_hopper<T, kSize, kGroups>, call, parts, keeps);
}

// Two blocks on a multiprocessor, or a large one alone.
template <class T, int kSize>
void enqueue_size(const AttentionCall& call, const LaunchArgs& args) {
  Resident<kSize>{stretches_of(call)}.bytes(call.mask != nullptr) <= kHalfShared
      ? enqueue<T, kSize, 2>(call, args)
      : enqueue<T, kSize, 4>(call, args);
}

template <class T, int kSize>
void prepare_size() {
  for (const auto kernel : {attend_on_hopper<T, kSize, 2>, attend_on_hopper<T, kSize, 4>})
    device::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared));
}

}  // namespace

bool hopper_attends(const AttentionCall& call) {
  const int stretches = stretches_of(call);
  const bool fits = (call.size == 32 && Resident<32>{stretches}.bytes(true) <= kMostShared) ||
                    (call.size == 64 && Resident<64>{stretches}.bytes(true) <= kMostShared);
  return fits && call.mask_head == 0 && call.mask_query == 0;
}

void prepare_hopper_attention(RealType type, int size) {
  const bool is_bf16 = type == RealType::bf16;
  if (size == 32) return is_bf16 ? prepare_size<__nv_bfloat16, 32>() : prepare_size<__half, 32>();
  is_bf16 ? prepare_size<__nv_bfloat16, 64>() : prepare_size<__half, 64>();
}

void hopper_attention(RealType type, const AttentionCall& call, const LaunchArgs& args) {
  const bool is_bf16 = type == RealType::bf16;
  if (call.size == 32)
    return is_bf16 ? enqueue_size<__nv_bfloat16, 32>(call, args)
                   : enqueue_size<__half, 32>(call, args);
  is_bf16 ? enqueue_size<__nv_bfloat16, 64>(call, args) : enqueue_size<__half, 64>(call, args);
}

}  // namespace sluice::kernels::cuda
