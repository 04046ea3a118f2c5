// Elements that indices name are read.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/data_movement/moves.h"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) take_kernel(const Take take) {
  const std::int64_t i = place();
  if (i >= take.total) return;
  const auto at = static_cast<unsigned>(i);
  const unsigned row = quotient(take.inner, at), k = at - row * take.inner.size;
  const unsigned outer = quotient(take.count, row), which = row - outer * take.count.size;
  const std::int64_t index =
      resolved(index_at(take.indices, take.long_indices, which), take.size, take.error);
  T value{};
  if (index >= 0)
    value = static_cast<const T*>(take.from)[(outer * take.size + index) * take.inner.size + k];
  static_cast<T*>(take.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) take_elements_kernel(const TakeElements take) {
  const std::int64_t i = place();
  if (i >= take.total) return;
  const std::int64_t index =
      resolved(index_at(take.indices, take.long_indices, i), take.size, take.error);
  std::int64_t from = index * take.axis_step;
  auto rest = static_cast<unsigned>(i);
#pragma unroll
  for (int axis = kMostMoveAxes - 1; axis >= 0; --axis) {
    if (axis >= take.rank) continue;
    const unsigned outer = quotient(take.shape[axis], rest);
    from += (rest - outer * take.shape[axis].size) * take.step[axis];
    rest = outer;
  }
  T value{};
  if (index >= 0) value = static_cast<const T*>(take.from)[from];
  static_cast<T*>(take.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_tuples_kernel(const Tuples tuples, const T* from, T* to, std::int64_t inner) {
  const std::int64_t i = place();
  if (i >= tuples.count * inner) return;
  const std::int64_t block = tuple_place(tuples, i / inner);
  T value{};
  if (block >= 0) value = from[block + i % inner];
  to[i] = value;
}

}  // namespace

void run_take(const Take& take, const LaunchArgs& args) {
  with_width(take.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(take.total), take_kernel<T>, take);
  });
}

void run_take_elements(const TakeElements& take, const LaunchArgs& args) {
  with_width(take.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(take.total), take_elements_kernel<T>, take);
  });
}

void run_take_tuples(const Tuples& tuples, const void* from, void* to, int width,
                     std::int64_t inner, const LaunchArgs& args) {
  with_width(width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(tuples.count * inner), take_tuples_kernel<T>, tuples,
           static_cast<const T*>(from), static_cast<T*>(to), inner);
  });
}

}  // namespace sluice::kernels::cuda
