// Triangles, diagonals, one among many, ramps; sequences turned round; running sums.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/data_movement/moves.h"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__device__ T bits_of(const std::uint64_t (&value)[2]) {
  return *reinterpret_cast<const T*>(value);
}

__device__ std::int64_t hot_index(const ByRule& rule, std::int64_t i) {
  if (rule.index_bytes == 8) return static_cast<const std::int64_t*>(rule.from)[i];
  if (rule.index_bytes == 4) return static_cast<const std::int32_t*>(rule.from)[i];
  return static_cast<std::int64_t>(static_cast<const float*>(rule.from)[i]);
}

// Depth is `rows`, what lies within the axis `columns`.
template <class T>
__device__ T one_hot(const ByRule& rule, std::int64_t i) {
  const std::int64_t inner = i % rule.columns, hot = i / rule.columns % rule.rows;
  std::int64_t index = hot_index(rule, i / rule.columns / rule.rows * rule.columns + inner);
  if (index < 0) index += rule.rows;
  return static_cast<const T*>(rule.more)[index == hot ? 1 : 0];
}

template <class T>
__global__ void __launch_bounds__(kThreads) rule_kernel(const ByRule rule) {
  const std::int64_t i = place();
  if (i >= rule.total) return;
  const std::int64_t column = i % rule.columns, row = i / rule.columns % rule.rows;
  T value{};
  switch (rule.rule) {
    case ByRule::Rule::upper:
      if (column >= row + rule.shift) value = static_cast<const T*>(rule.from)[i];
      break;
    case ByRule::Rule::lower:
      if (column <= row + rule.shift) value = static_cast<const T*>(rule.from)[i];
      break;
    case ByRule::Rule::diagonal:
      if (column == row + rule.shift) value = bits_of<T>(rule.value);
      break;
    case ByRule::Rule::one_hot: value = one_hot<T>(rule, i); break;
    default: value = bits_of<T>(rule.value);
  }
  static_cast<T*>(rule.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) reverse_kernel(const Reverse reverse) {
  const std::int64_t i = place();
  if (i >= reverse.total) return;
  const std::int64_t time = i / reverse.time_step % reverse.time;
  const std::int64_t batch = i / reverse.batch_step % reverse.batch;
  const std::int64_t length =
      length_at(reverse.lengths, reverse.long_lengths, batch, reverse.time, reverse.error);
  const std::int64_t from = time < length ? length - 1 - time : time;
  static_cast<T*>(reverse.to)[i] =
      static_cast<const T*>(reverse.from)[i + (from - time) * reverse.time_step];
}

template <class T>
__global__ void __launch_bounds__(kThreads) running_kernel(const Running running) {
  using S = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  const std::int64_t line = place();
  if (line >= running.outer * running.inner) return;
  const std::int64_t first =
      line / running.inner * running.n * running.inner + line % running.inner;
  const T* const from = static_cast<const T*>(running.from) + first;
  T* const to = static_cast<T*>(running.to) + first;
  const auto narrowed = [](S x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(x);
    else
      return narrow<T>(static_cast<float>(x));
  };
  S so_far = running.product ? 1 : 0;
  for (std::int64_t k = 0; k < running.n; ++k) {
    const std::int64_t at = (running.backward ? running.n - 1 - k : k) * running.inner;
    S x;
    if constexpr (std::is_integral_v<T>)
      x = static_cast<S>(from[at]);
    else
      x = static_cast<S>(wide(from[at]));
    if (running.exclusive) to[at] = narrowed(so_far);
    so_far = running.product ? so_far * x : so_far + x;
    if (!running.exclusive) to[at] = narrowed(so_far);
  }
}

}  // namespace

void run_by_rule(const ByRule& rule, const LaunchArgs& args) {
  with_width(rule.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(rule.total), rule_kernel<T>, rule);
  });
}

void run_reverse(const Reverse& reverse, const LaunchArgs& args) {
  with_width(reverse.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(reverse.total), reverse_kernel<T>, reverse);
  });
}

void run_running(NumberType type, const Running& running, const LaunchArgs& args) {
  with_number(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(running.outer * running.inner), running_kernel<T>, running);
  });
}

}  // namespace sluice::kernels::cuda
