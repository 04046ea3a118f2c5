// ScatterElements and ScatterND. Updates of one element are applied by one thread, in order.
#include "kernels/data_movement/data_movement.h"
#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__device__ T reduced(Reduction how, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    switch (how) {
      case Reduction::add:
        return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
      case Reduction::mul:
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      case Reduction::max: return a > b ? a : b;
      default: return a < b ? a : b;
    }
  } else {
    const float x = wide(a), y = wide(b);
    switch (how) {
      case Reduction::add: return narrow<T>(x + y);
      case Reduction::mul: return narrow<T>(x * y);
      case Reduction::max: return x > y || x != x ? a : b;
      default: return x < y || x != x ? a : b;
    }
  }
}

// How an update is applied: without a reduction, and with one.
struct WriteUpdate {
  template <class T>
  __device__ static T of(Reduction, const T&, const T& b) {
    return b;
  }
};
struct ReduceUpdate {
  template <class T>
  __device__ static T of(Reduction how, const T& a, const T& b) {
    return reduced<T>(how, a, b);
  }
};

template <class T, class How>
__global__ void __launch_bounds__(kThreads)
    scatter_elements(const ScatterElementsCall put, std::int64_t lines, Reduction how) {
  const std::int64_t line = thread_index();
  if (line >= lines) return;
  const GatherElementsCall& target = put.target;
  std::int64_t to = 0, at = 0, own_step = 1, axis_stride = 1;  // in the target, in the indices
  auto rest = static_cast<unsigned>(line);
  for (int axis = target.rank - 1; axis >= 0; --axis) {
    const std::int64_t size = target.shape[axis].size;
    if (axis == put.axis) {
      axis_stride = own_step;
    } else {
      const unsigned outer = quotient(target.shape[axis], rest);
      const unsigned own = rest - outer * target.shape[axis].size;
      to += own * target.stride[axis];
      at += own * own_step;
      rest = outer;
    }
    own_step *= size;
  }
  const std::int64_t n = target.shape[put.axis].size;
  for (std::int64_t k = 0; k < n; ++k, at += axis_stride) {
    const std::int64_t index =
        resolve_index(index_at(target.indices, target.long_indices, at), target.size, target.error);
    if (index < 0) continue;
    T& element = static_cast<T*>(target.to)[to + index * target.axis_stride];
    element = How::template of<T>(how, element, static_cast<const T*>(target.from)[at]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_nd(const GatherNdIndices tuples, const T* from, T* to, std::int64_t inner) {
  const std::int64_t i = thread_index();
  if (i >= tuples.count * inner) return;
  const std::int64_t block = tuple_offset(tuples, i / inner);
  if (block >= 0) to[block + i % inner] = from[i];
}

// One thread for each element of a slice goes through all updates.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_nd_reduce(const GatherNdIndices tuples, const T* from, T* to, std::int64_t inner,
                      Reduction how) {
  const std::int64_t i = thread_index();
  if (i >= inner) return;
  for (std::int64_t t = 0; t < tuples.count; ++t) {
    const std::int64_t block = tuple_offset(tuples, t);
    if (block >= 0) to[block + i] = reduced<T>(how, to[block + i], from[t * inner + i]);
  }
}

}  // namespace

void run_scatter_elements(const ScatterElementsCall& put, Reduction how, NumberType type,
                          const LaunchArgs& args) {
  const std::int64_t lines = put.target.total / put.target.shape[put.axis].size;
  if (how == Reduction::none)
    return with_width(put.target.width, [&]<class T>(T) {
      launch(stream_of(args), grid_for(lines), scatter_elements<T, WriteUpdate>, put, lines, how);
    });
  with_numeric_type(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(lines), scatter_elements<T, ReduceUpdate>, put, lines, how);
  });
}

void run_scatter_nd(const GatherNdIndices& tuples, const void* from, void* to, int width,
                    std::int64_t inner, Reduction how, NumberType type, const LaunchArgs& args) {
  if (how == Reduction::none)
    return with_width(width, [&]<class T>(T) {
      launch(stream_of(args), grid_for(tuples.count * inner), scatter_nd<T>, tuples,
             static_cast<const T*>(from), static_cast<T*>(to), inner);
    });
  with_numeric_type(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(inner), scatter_nd_reduce<T>, tuples,
           static_cast<const T*>(from), static_cast<T*>(to), inner, how);
  });
}

}  // namespace sluice::kernels::cuda
