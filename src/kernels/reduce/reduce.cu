// Where what is reduced lies side by side, a warp or a block goes along it; otherwise lanes
// have results that lie side by side, packs of them where they come so, and eight rows of lanes
// share the work. The order of a sum depends on the axes that are reduced, not on how many
// results there are.
#include <algorithm>
#include <optional>

#include "kernels/data_movement/element_width.cuh"
#include "kernels/reduce/reduce.h"

namespace sluice::kernels::cuda {
namespace {

constexpr int kRows = 8;

__device__ std::int64_t place_in(const AxisGroups& groups, std::int64_t index) {
  std::int64_t at = 0;
#pragma unroll
  for (int i = kMostGroups - 1; i >= 0; --i) {
    if (i >= groups.rank) continue;
    const std::int64_t outer = i == 0 ? 0 : index / groups.size[i];  // division is slow
    at += (index - outer * groups.size[i]) * groups.step[i];
    index = outer;
  }
  return at;
}

// Of floats in float, of integers in i64.
template <class T>
struct Computed {
  using type = float;
};
template <>
struct Computed<std::int32_t> {
  using type = long long;
};
template <>
struct Computed<std::int64_t> {
  using type = long long;
};

template <class T>
__device__ typename Computed<T>::type read(const T& x) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return wide(x);
}

__device__ inline float lowest(float) { return -INFINITY; }
__device__ inline long long lowest(long long) { return static_cast<long long>(1ull << 63); }
__device__ inline float highest(float) { return INFINITY; }
__device__ inline long long highest(long long) { return static_cast<long long>(~0ull >> 1); }

// What is known of some of the elements: `a`, and for log_sum_exp a sum against it.
template <class W>
struct State {
  W a;
  float sum;

  State() = default;
  __device__ explicit State(Reduce op) : a(0), sum(0) {
    if (op == Reduce::product) a = 1;
    if (op == Reduce::most) a = lowest(W());
    if (op == Reduce::least) a = highest(W());
    if (op == Reduce::log_sum_exp) a = lowest(W());
  }

  __device__ void add(Reduce op, W x) {
    switch (op) {
      case Reduce::l1: a += x < 0 ? -x : x; break;
      case Reduce::l2:
      case Reduce::sum_square: a += x * x; break;
      case Reduce::product: a *= x; break;
      case Reduce::most:
        if (x > a || x != x) a = x;
        break;
      case Reduce::least:
        if (x < a || x != x) a = x;
        break;
      case Reduce::log_sum_exp: add_power(x, 1); break;
      default: a += x;
    }
  }
  // `times` powers of x.
  __device__ void add_power(W x, float times) {
    if (x > a) {
      sum = sum * expf(static_cast<float>(a) - static_cast<float>(x)) + times;
      a = x;
    } else {
      sum += x == a ? times : times * expf(static_cast<float>(x) - static_cast<float>(a));
    }
  }
  __device__ void join(Reduce op, const State& other) {
    switch (op) {
      case Reduce::product: a *= other.a; break;
      case Reduce::most:
      case Reduce::least: add(op, other.a); break;
      case Reduce::log_sum_exp:
        if (other.sum > 0 || other.sum != other.sum) add_power(other.a, other.sum);
        break;
      default: a += other.a;
    }
  }

  template <class T>
  __device__ static T made(double x) {
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
      case Reduce::l2: return made<T>(sqrt(static_cast<double>(a)));
      case Reduce::log_sum: return made<T>(log(static_cast<double>(a)));
      case Reduce::log_sum_exp:
        return made<T>(static_cast<double>(a) + log(static_cast<double>(sum)));
      default:
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(a);
        else
          return narrow<T>(a);
    }
  }
};

template <class W>
__device__ void join_lanes(State<W>& state, Reduce op) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    State<W> other = state;
    other.a = __shfl_down_sync(kAllLanes, state.a, step);
    other.sum = __shfl_down_sync(kAllLanes, state.sum, step);
    state.join(op, other);
  }
}

// A block for each result.
template <class T>
__global__ void near_kernel(const ReduceCall call) {
  using W = typename Computed<T>::type;
  __shared__ W parts[32];
  __shared__ float sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t result = blockIdx.x;
  const T* const from = static_cast<const T*>(call.from) + place_in(call.kept, result);
  State<W> state(call.op);
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += blockDim.x)
    state.add(call.op, read(from[place_in(call.reduced, i)]));
  join_lanes(state, call.op);
  if (lane == 0) parts[warp] = state.a, sums[warp] = state.sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) {
    State<W> other(call.op);
    other.a = parts[i];
    other.sum = sums[i];
    state.join(call.op, other);
  }
  static_cast<T*>(call.to)[result] = state.template result<T>(call.op, call.reduced.count);
}

// Lanes have results, rows share what each is made of.
template <class T>
__global__ void __launch_bounds__(32 * kRows) far_kernel(const ReduceCall call) {
  using W = typename Computed<T>::type;
  __shared__ W parts[kRows][32];
  __shared__ float sums[kRows][32];
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  State<W> state(call.op);
  if (result < call.kept.count) {
    const T* const from = static_cast<const T*>(call.from) + place_in(call.kept, result);
    for (std::int64_t i = threadIdx.y; i < call.reduced.count; i += kRows)
      state.add(call.op, read(from[place_in(call.reduced, i)]));
  }
  parts[threadIdx.y][threadIdx.x] = state.a;
  sums[threadIdx.y][threadIdx.x] = state.sum;
  __syncthreads();
  if (threadIdx.y != 0 || result >= call.kept.count) return;
  for (int i = 1; i < kRows; ++i) {
    State<W> other(call.op);
    other.a = parts[i][threadIdx.x];
    other.sum = sums[i][threadIdx.x];
    state.join(call.op, other);
  }
  static_cast<T*>(call.to)[result] = state.template result<T>(call.op, call.reduced.count);
}

// ---- results that come in packs of 16 bytes -----------------------------------------------------

struct PacksCall {
  ReduceCall call;
  unsigned packs;
  Divisor inner;  // packs that lie side by side
  std::int64_t outer_step;
};

template <class T>
constexpr int kPack = 16 / sizeof(T);
constexpr std::int64_t kMostCounted = (std::int64_t{1} << 31) - 1 - 32 * kRows * 8;

template <class S, int kN>
struct Array {
  S at[kN];

  __device__ explicit Array(Reduce op) {
#pragma unroll
    for (S& state : at) state = S(op);
  }
};

template <class T>
__device__ const T* pack_of(const PacksCall& packs, unsigned pack) {
  const unsigned outer = quotient(packs.inner, pack);
  return static_cast<const T*>(packs.call.from) + outer * packs.outer_step +
         static_cast<std::int64_t>(pack - outer * packs.inner.size) * kPack<T>;
}

// The elements of a pack that a row of lanes has to see, with several loads under way at once.
template <class T, int kAhead, class See>
__device__ void walk(const T* from, const AxisGroups& along, const See& see) {
  using P = Pack<T, kPack<T>>;
  const auto n = static_cast<int>(along.count);
  for (int first = static_cast<int>(threadIdx.y); first < n; first += kRows * kAhead) {
    P seen[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k * kRows < n)
        seen[k] = *reinterpret_cast<const P*>(from + (first + k * kRows) * along.step[0]);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * kRows >= n) break;
#pragma unroll
      for (int e = 0; e < kPack<T>; ++e) see(e, read(seen[k].at[e]));
    }
  }
}

// What far_kernel does, in the same order, a pack for each lane. kSums: nothing but sums, so that
// no element waits for the choice. Limit: memory.
template <class T, bool kSums>
__global__ void __launch_bounds__(32 * kRows) packs_kernel(const PacksCall packs) {
  using W = typename Computed<T>::type;
  constexpr int kN = kPack<T>, kLine = 32 + 32 / kN;  // so that no two results share a bank
  __shared__ W parts[kRows][kN][kLine];
  __shared__ float sums[kRows][kN][kSums ? 1 : kLine];
  const ReduceCall& call = packs.call;
  const Reduce op = kSums ? Reduce::sum : call.op;
  const unsigned lane = threadIdx.x, row = threadIdx.y, first = blockIdx.x * 32;
  Array<State<W>, kN> states(op);
  if (first + lane < packs.packs)
    walk<T, kSums ? 8 : 2>(pack_of<T>(packs, first + lane), call.reduced,
                           [&](int e, W x) { states.at[e].add(op, x); });
#pragma unroll
  for (int e = 0; e < kN; ++e) {
    parts[row][e][lane] = states.at[e].a;
    if constexpr (!kSums) sums[row][e][lane] = states.at[e].sum;
  }
  __syncthreads();
  const unsigned i = row * 32 + lane, of = i / kN, e = i % kN;  // one result for each thread
  if (of >= 32 || first + of >= packs.packs) return;
  State<W> state(op);
  for (int k = 0; k < kRows; ++k) {
    State<W> other(op);
    other.a = parts[k][e][of];
    if constexpr (!kSums) other.sum = sums[k][e][of];
    if (k == 0)
      state = other;
    else
      state.join(op, other);
  }
  static_cast<T*>(call.to)[static_cast<std::int64_t>(first) * kN + i] =
      state.template result<T>(call.op, call.reduced.count);
}

// None where results do not come so, or are more than 32 bits count.
template <class T>
std::optional<PacksCall> packs_call(const ReduceCall& call) {
  const AxisGroups& kept = call.kept;
  const int last = kept.rank - 1;
  if (kept.rank < 1 || kept.rank > 2 || kept.step[last] != 1 || kept.size[last] % kPack<T> != 0 ||
      call.reduced.rank != 1 || std::max(kept.count, call.reduced.count) > kMostCounted)
    return {};
  return PacksCall{.call = call,
                   .packs = static_cast<unsigned>(kept.count / kPack<T>),
                   .inner = Divisor(kept.size[last] / kPack<T>),
                   .outer_step = last > 0 ? kept.step[0] : 0};
}

template <class T>
void run_packs(const PacksCall& packs, cudaStream_t stream) {
  const Reduce op = packs.call.op;
  const bool sums = op == Reduce::sum || op == Reduce::mean || op == Reduce::log_sum;
  launch(stream, {dim3((packs.packs + 31) / 32), dim3(32, kRows)},
         sums ? packs_kernel<T, true> : packs_kernel<T, false>, packs);
}

// -------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads) mean_variance_kernel(const ReduceCall call) {
  const std::int64_t first = place_in(call.kept, blockIdx.x);
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
    sum += wide(from[place_in(call.reduced, i)]);
  const float mean = total(sum) / n;
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += kThreads) {
    const float off = wide(from[place_in(call.reduced, i)]) - mean;
    squares = fmaf(off, off, squares);
  }
  const float spread = sqrtf(total(squares) / n) + 1e-9f;
  for (std::int64_t i = threadIdx.x; i < call.reduced.count; i += kThreads) {
    const std::int64_t at = place_in(call.reduced, i);
    to[at] = narrow<T>((wide(from[at]) - mean) / spread);
  }
}

template <class T>
void run_typed(const ReduceCall& call, const LaunchArgs& args) {
  const AxisGroups& reduced = call.reduced;
  const bool near = reduced.rank > 0 && reduced.step[reduced.rank - 1] == 1;
  if (near || call.kept.rank == 0) {
    const unsigned threads = reduced.count <= 1024 ? 32 : 256;
    return launch(stream_of(args), {dim3(static_cast<unsigned>(call.kept.count)), dim3(threads)},
                  near_kernel<T>, call);
  }
  if (const auto packs = packs_call<T>(call)) return run_packs<T>(*packs, stream_of(args));
  launch(stream_of(args),
         {dim3(static_cast<unsigned>((call.kept.count + 31) / 32)), dim3(32, kRows)}, far_kernel<T>,
         call);
}

}  // namespace

void run_reduce(NumberType type, const ReduceCall& call, const LaunchArgs& args) {
  with_number(type, [&]<class T>(T) { run_typed<T>(call, args); });
}

void run_mean_variance(RealType type, const ReduceCall& call, const LaunchArgs& args) {
  const Grid grid{dim3(static_cast<unsigned>(call.kept.count)), dim3(kThreads)};
  if (type == RealType::f32)
    return launch(stream_of(args), grid, mean_variance_kernel<float>, call);
  if (type == RealType::f16)
    return launch(stream_of(args), grid, mean_variance_kernel<__half>, call);
  launch(stream_of(args), grid, mean_variance_kernel<__nv_bfloat16>, call);
}

}  // namespace sluice::kernels::cuda
