// Trilu, EyeLike, OneHot, ConstantOfShape, ReverseSequence, CumSum and CumProd.
#include "kernels/data_movement/data_movement.h"
#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__device__ T bits_of(const std::uint64_t (&value)[2]) {
  return *reinterpret_cast<const T*>(value);
}

__device__ std::int64_t hot_index(const PatternFillCall& fill, std::int64_t i) {
  if (fill.index_bytes == 8) return static_cast<const std::int64_t*>(fill.from)[i];
  if (fill.index_bytes == 4) return static_cast<const std::int32_t*>(fill.from)[i];
  return static_cast<std::int64_t>(static_cast<const float*>(fill.from)[i]);
}

// `rows` is the depth, `columns` the size of the inner axes.
template <class T>
__device__ T one_hot(const PatternFillCall& fill, std::int64_t i) {
  const std::int64_t inner = i % fill.columns, hot = i / fill.columns % fill.rows;
  std::int64_t index = hot_index(fill, i / fill.columns / fill.rows * fill.columns + inner);
  if (index < 0) index += fill.rows;
  return static_cast<const T*>(fill.values)[index == hot ? 1 : 0];
}

template <class T>
__global__ void __launch_bounds__(kThreads) trilu_one_hot_fill(const PatternFillCall fill) {
  const std::int64_t i = thread_index();
  if (i >= fill.total) return;
  const std::int64_t column = i % fill.columns, row = i / fill.columns % fill.rows;
  T value{};
  switch (fill.pattern) {
    case PatternFillCall::Pattern::triu:
      if (column >= row + fill.shift) value = static_cast<const T*>(fill.from)[i];
      break;
    case PatternFillCall::Pattern::tril:
      if (column <= row + fill.shift) value = static_cast<const T*>(fill.from)[i];
      break;
    case PatternFillCall::Pattern::eye:
      if (column == row + fill.shift) value = bits_of<T>(fill.value);
      break;
    case PatternFillCall::Pattern::one_hot: value = one_hot<T>(fill, i); break;
    default: value = bits_of<T>(fill.value);
  }
  static_cast<T*>(fill.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) reverse_sequence(const ReverseSequenceCall reverse) {
  const std::int64_t i = thread_index();
  if (i >= reverse.total) return;
  const std::int64_t time = i / reverse.time_stride % reverse.time;
  const std::int64_t batch = i / reverse.batch_stride % reverse.batch;
  const std::int64_t length =
      length_at(reverse.lengths, reverse.long_lengths, batch, reverse.time, reverse.error);
  const std::int64_t from = time < length ? length - 1 - time : time;
  static_cast<T*>(reverse.to)[i] =
      static_cast<const T*>(reverse.from)[i + (from - time) * reverse.time_stride];
}

template <class T>
__global__ void __launch_bounds__(kThreads) cumsum(const CumSumCall call) {
  using S = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  const std::int64_t line = thread_index();
  if (line >= call.outer * call.inner) return;
  const std::int64_t first = line / call.inner * call.n * call.inner + line % call.inner;
  const T* const from = static_cast<const T*>(call.from) + first;
  T* const to = static_cast<T*>(call.to) + first;
  const auto narrowed = [](S x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(x);
    else
      return narrow<T>(static_cast<float>(x));
  };
  S sum = call.product ? 1 : 0;
  for (std::int64_t k = 0; k < call.n; ++k) {
    const std::int64_t at = (call.backward ? call.n - 1 - k : k) * call.inner;
    S x;
    if constexpr (std::is_integral_v<T>)
      x = static_cast<S>(from[at]);
    else
      x = static_cast<S>(wide(from[at]));
    if (call.exclusive) to[at] = narrowed(sum);
    sum = call.product ? sum * x : sum + x;
    if (!call.exclusive) to[at] = narrowed(sum);
  }
}

}  // namespace

void run_pattern_fill(const PatternFillCall& fill, const LaunchArgs& args) {
  with_width(fill.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(fill.total), trilu_one_hot_fill<T>, fill);
  });
}

void run_reverse_sequence(const ReverseSequenceCall& reverse, const LaunchArgs& args) {
  with_width(reverse.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(reverse.total), reverse_sequence<T>, reverse);
  });
}

void run_cumsum(NumberType type, const CumSumCall& call, const LaunchArgs& args) {
  with_numeric_type(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(call.outer * call.inner), cumsum<T>, call);
  });
}

}  // namespace sluice::kernels::cuda
