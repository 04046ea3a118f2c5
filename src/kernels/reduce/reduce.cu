// Reductions. Where the reduced elements are contiguous a warp or a block goes along them;
// otherwise lanes hold neighbouring results, packs of them where possible, and eight rows of lanes
// share the work. The order of a sum depends on the reduced axes, not on how many results there
// are.
#include <algorithm>
#include <optional>

#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/reduce.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kRows = 8;

__device__ std::int64_t element_offset(const AxisGroups& groups, std::int64_t index) {
  std::int64_t at = 0;
#pragma unroll
  for (int i = kMaxAxisGroups - 1; i >= 0; --i) {
    if (i >= groups.rank) continue;
    const std::int64_t outer = i == 0 ? 0 : index / groups.size[i];  // 64-bit division is slow
    at += (index - outer * groups.size[i]) * groups.stride[i];
    index = outer;
  }
  return at;
}

// Floats are accumulated in float, integers in i64.
template <class T>
struct Accumulated {
  using type = float;
};
template <>
struct Accumulated<std::int32_t> {
  using type = long long;
};
template <>
struct Accumulated<std::int64_t> {
  using type = long long;
};

template <class T>
__device__ typename Accumulated<T>::type read(const T& x) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return wide(x);
}

__device__ inline float lowest(float) { return -INFINITY; }
__device__ inline long long lowest(long long) { return static_cast<long long>(1ull << 63); }
__device__ inline float highest(float) { return INFINITY; }
__device__ inline long long highest(long long) { return static_cast<long long>(~0ull >> 1); }

// The state of a reduction: `a`, and for log_sum_exp the maximum `a` and the sum of exp(x - a).
template <class W>
struct Accumulator {
  W a;
  float sum;

  Accumulator() = default;
  __device__ explicit Accumulator(Reduce op) : a(0), sum(0) {
    if (op == Reduce::product) a = 1;
    if (op == Reduce::max) a = lowest(W());
    if (op == Reduce::min) a = highest(W());
    if (op == Reduce::log_sum_exp) a = lowest(W());
  }

  __device__ void add(Reduce op, W x) {
    switch (op) {
      case Reduce::l1: a += x < 0 ? -x : x; break;
      case Reduce::l2:
      case Reduce::sum_square: a += x * x; break;
      case Reduce::product: a *= x; break;
      case Reduce::max:
        if (x > a || x != x) a = x;
        break;
      case Reduce::min:
        if (x < a || x != x) a = x;
        break;
      case Reduce::log_sum_exp: add_exp(x, 1); break;
      default: a += x;
    }
  }
  // Adds `times` * exp(x).
  __device__ void add_exp(W x, float times) {
    if (x > a) {
      sum = sum * expf(static_cast<float>(a) - static_cast<float>(x)) + times;
      a = x;
    } else {
      sum += x == a ? times : times * expf(static_cast<float>(x) - static_cast<float>(a));
    }
  }
  __device__ void merge(Reduce op, const Accumulator& other) {
    switch (op) {
      case Reduce::product: a *= other.a; break;
      case Reduce::max:
      case Reduce::min: add(op, other.a); break;
      case Reduce::log_sum_exp:
        if (other.sum > 0 || other.sum != other.sum) add_exp(other.a, other.sum);
        break;
      default: a += other.a;
    }
  }

  template <class T>
  __device__ static T rounded(double x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<long long>(x));
    else
      return narrow<T>(static_cast<float>(x));
  }
  template <class T>
  __device__ T result(Reduce op, std::int64_t n) const {
    switch (op) {
      case Reduce::mean:
        if constexpr (std::is_integral_v<T>)
          return n == 0 ? T(0) : static_cast<T>(a / n);
        else
          return narrow<T>(a / static_cast<float>(n));
      case Reduce::l2: return rounded<T>(sqrt(static_cast<double>(a)));
      case Reduce::log_sum: return rounded<T>(log(static_cast<double>(a)));
      case Reduce::log_sum_exp:
        return rounded<T>(static_cast<double>(a) + log(static_cast<double>(sum)));
      default:
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(a);
        else
          return narrow<T>(a);
    }
  }
};

template <class W>
__device__ void reduce_warp(Accumulator<W>& state, Reduce op) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    Accumulator<W> other = state;
    other.a = __shfl_down_sync(kAllLanes, state.a, step);
    other.sum = __shfl_down_sync(kAllLanes, state.sum, step);
    state.merge(op, other);
  }
}

// One block for each result.
template <class T>
__global__ void reduce_contiguous(const ReduceCall call) {
  using W = typename Accumulated<T>::type;
  __shared__ W parts[32];
  __shared__ float sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t result = blockIdx.x;
  const T* const from = static_cast<const T*>(call.from) + element_offset(call.kept, result);
  Accumulator<W> state(call.op);
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += blockDim.x)
    state.add(call.op, read(from[element_offset(call.reduced, i)]));
  reduce_warp(state, call.op);
  if (lane == 0) parts[warp] = state.a, sums[warp] = state.sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) {
    Accumulator<W> other(call.op);
    other.a = parts[i];
    other.sum = sums[i];
    state.merge(call.op, other);
  }
  static_cast<T*>(call.to)[result] = state.template result<T>(call.op, call.reduced.count);
}

// Lanes hold results; the rows of a block split the elements of each.
template <class T>
__global__ void __launch_bounds__(32 * kRows) reduce_strided(const ReduceCall call) {
  using W = typename Accumulated<T>::type;
  __shared__ W parts[kRows][32];
  __shared__ float sums[kRows][32];
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  Accumulator<W> state(call.op);
  if (result < call.kept.count) {
    const T* const from = static_cast<const T*>(call.from) + element_offset(call.kept, result);
    for (std::int64_t i = threadIdx.y; i < call.reduced.count; i += kRows)
      state.add(call.op, read(from[element_offset(call.reduced, i)]));
  }
  parts[threadIdx.y][threadIdx.x] = state.a;
  sums[threadIdx.y][threadIdx.x] = state.sum;
  __syncthreads();
  if (threadIdx.y != 0 || result >= call.kept.count) return;
  for (int i = 1; i < kRows; ++i) {
    Accumulator<W> other(call.op);
    other.a = parts[i][threadIdx.x];
    other.sum = sums[i][threadIdx.x];
    state.merge(call.op, other);
  }
  static_cast<T*>(call.to)[result] = state.template result<T>(call.op, call.reduced.count);
}

// ---- results in packs of 16 bytes ---------------------------------------------------------------

struct PackedReduceCall {
  ReduceCall call;
  unsigned packs;
  Divisor inner;  // contiguous packs
  std::int64_t outer_step;
};

template <class T>
constexpr int kPack = 16 / sizeof(T);
constexpr std::int64_t kMaxCount = (std::int64_t{1} << 31) - 1 - 32 * kRows * 8;

template <class S, int kN>
struct Array {
  S at[kN];

  __device__ explicit Array(Reduce op) {
#pragma unroll
    for (S& state : at) state = S(op);
  }
};

template <class T>
__device__ const T* pack_of(const PackedReduceCall& packs, unsigned pack) {
  const unsigned outer = quotient(packs.inner, pack);
  return static_cast<const T*>(packs.call.from) + outer * packs.outer_step +
         static_cast<std::int64_t>(pack - outer * packs.inner.size) * kPack<T>;
}

// Calls body(e, x) for the elements of a pack that this row of lanes reduces, with several loads in
// flight.
template <class T, int kLoadsAtOnce, class Body>
__device__ void each_pack(const T* from, const AxisGroups& along, const Body& body) {
  using P = Pack<T, kPack<T>>;
  const auto n = static_cast<int>(along.count);
  for (int first = static_cast<int>(threadIdx.y); first < n; first += kRows * kLoadsAtOnce) {
    P loaded[kLoadsAtOnce];
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k)
      if (first + k * kRows < n)
        loaded[k] = *reinterpret_cast<const P*>(from + (first + k * kRows) * along.stride[0]);
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k) {
      if (first + k * kRows >= n) break;
#pragma unroll
      for (int e = 0; e < kPack<T>; ++e) body(e, read(loaded[k].at[e]));
    }
  }
}

// As reduce_strided and in the same order, with a pack of results for each lane. kSumOnly: sums,
// without a branch on the operator for each element. Limit: memory.
template <class T, bool kSumOnly>
__global__ void __launch_bounds__(32 * kRows) reduce_strided_packed(const PackedReduceCall packs) {
  using W = typename Accumulated<T>::type;
  constexpr int kN = kPack<T>, kLine = 32 + 32 / kN;  // padded against bank conflicts
  __shared__ W parts[kRows][kN][kLine];
  __shared__ float sums[kRows][kN][kSumOnly ? 1 : kLine];
  const ReduceCall& call = packs.call;
  const Reduce op = kSumOnly ? Reduce::sum : call.op;
  const unsigned lane = threadIdx.x, row = threadIdx.y, first = blockIdx.x * 32;
  Array<Accumulator<W>, kN> states(op);
  if (first + lane < packs.packs)
    each_pack<T, kSumOnly ? 8 : 2>(pack_of<T>(packs, first + lane), call.reduced,
                                   [&](int e, W x) { states.at[e].add(op, x); });
#pragma unroll
  for (int e = 0; e < kN; ++e) {
    parts[row][e][lane] = states.at[e].a;
    if constexpr (!kSumOnly) sums[row][e][lane] = states.at[e].sum;
  }
  __syncthreads();
  const unsigned i = row * 32 + lane, of = i / kN, e = i % kN;  // one result for each thread
  if (of >= 32 || first + of >= packs.packs) return;
  Accumulator<W> state(op);
  for (int k = 0; k < kRows; ++k) {
    Accumulator<W> other(op);
    other.a = parts[k][e][of];
    if constexpr (!kSumOnly) other.sum = sums[k][e][of];
    if (k == 0)
      state = other;
    else
      state.merge(op, other);
  }
  static_cast<T*>(call.to)[static_cast<std::int64_t>(first) * kN + i] =
      state.template result<T>(call.op, call.reduced.count);
}

// Empty where results are not in whole packs, or 32 bits do not index them.
template <class T>
std::optional<PackedReduceCall> packed_reduce_call(const ReduceCall& call) {
  const AxisGroups& kept = call.kept;
  const int last = kept.rank - 1;
  if (kept.rank < 1 || kept.rank > 2 || kept.stride[last] != 1 || kept.size[last] % kPack<T> != 0 ||
      call.reduced.rank != 1 || std::max(kept.count, call.reduced.count) > kMaxCount)
    return {};
  return PackedReduceCall{.call = call,
                          .packs = static_cast<unsigned>(kept.count / kPack<T>),
                          .inner = Divisor(kept.size[last] / kPack<T>),
                          .outer_step = last > 0 ? kept.stride[0] : 0};
}

template <class T>
void run_packed(const PackedReduceCall& packs, cudaStream_t stream) {
  const Reduce op = packs.call.op;
  const bool sums = op == Reduce::sum || op == Reduce::mean || op == Reduce::log_sum;
  launch(stream, {dim3((packs.packs + 31) / 32), dim3(32, kRows)},
         sums ? reduce_strided_packed<T, true> : reduce_strided_packed<T, false>, packs);
}

// -------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads) mean_variance_norm(const ReduceCall call) {
  const std::int64_t first = element_offset(call.kept, blockIdx.x);
  const T* const from = static_cast<const T*>(call.from) + first;
  T* const to = static_cast<T*>(call.to) + first;
  const auto n = static_cast<float>(call.reduced.count);
  __shared__ float parts[kThreads / 32];
  const auto total = [&](float x) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    float all = 0;
    for (const float part : parts) all += part;
    return all;
  };
  float sum = 0, squares = 0;
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += kThreads)
    sum += wide(from[element_offset(call.reduced, i)]);
  const float mean = total(sum) / n;
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += kThreads) {
    const float off = wide(from[element_offset(call.reduced, i)]) - mean;
    squares = fmaf(off, off, squares);
  }
  const float deviation = sqrtf(total(squares) / n) + 1e-9f;
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += kThreads) {
    const std::int64_t at = element_offset(call.reduced, i);
    to[at] = narrow<T>((wide(from[at]) - mean) / deviation);
  }
}

template <class T>
void run_typed(const ReduceCall& call, const LaunchArgs& args) {
  const AxisGroups& reduced = call.reduced;
  const bool is_contiguous = reduced.rank > 0 && reduced.stride[reduced.rank - 1] == 1;
  if (is_contiguous || call.kept.rank == 0) {
    const unsigned threads = reduced.count <= 1024 ? 32 : 256;
    return launch(stream_of(args), {dim3(static_cast<unsigned>(call.kept.count)), dim3(threads)},
                  reduce_contiguous<T>, call);
  }
  if (const auto packs = packed_reduce_call<T>(call)) return run_packed<T>(*packs, stream_of(args));
  launch(stream_of(args),
         {dim3(static_cast<unsigned>((call.kept.count + 31) / 32)), dim3(32, kRows)},
         reduce_strided<T>, call);
}

}  // namespace

void run_reduce(NumberType type, const ReduceCall& call, const LaunchArgs& args) {
  with_numeric_type(type, [&]<class T>(T) { run_typed<T>(call, args); });
}

void run_mean_variance(RealType type, const ReduceCall& call, const LaunchArgs& args) {
  const Grid grid{dim3(static_cast<unsigned>(call.kept.count)), dim3(kThreads)};
  if (type == RealType::f32) return launch(stream_of(args), grid, mean_variance_norm<float>, call);
  if (type == RealType::f16) return launch(stream_of(args), grid, mean_variance_norm<__half>, call);
  launch(stream_of(args), grid, mean_variance_norm<__nv_bfloat16>, call);
}

}  // namespace sluice::kernels::cuda
