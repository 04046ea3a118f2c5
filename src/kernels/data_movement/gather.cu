// Gather, GatherElements and GatherND.
#include "kernels/common/live_limit.cuh"
#include "kernels/data_movement/data_movement.h"
#include "kernels/data_movement/element_width.cuh"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) gather(const GatherCall take, const LiveLimit limit) {
  const std::int64_t i = thread_index();
  if (i >= limit()) return;
  const auto at = static_cast<unsigned>(i);
  const unsigned row = quotient(take.inner, at), k = at - row * take.inner.size;
  const unsigned outer = quotient(take.count, row), which = row - outer * take.count.size;
  const std::int64_t index =
      resolve_index(index_at(take.indices, take.long_indices, which), take.size, take.error);
  T value{};
  if (index >= 0)
    value = static_cast<const T*>(take.from)[(outer * take.size + index) * take.inner.size + k];
  static_cast<T*>(take.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) gather_elements(const GatherElementsCall take) {
  const std::int64_t i = thread_index();
  if (i >= take.total) return;
  const std::int64_t index =
      resolve_index(index_at(take.indices, take.long_indices, i), take.size, take.error);
  std::int64_t from = index * take.axis_stride;
  unravel_index(take.shape, take.rank, static_cast<unsigned>(i),
                [&](int axis, unsigned own) { from += own * take.stride[axis]; });
  T value{};
  if (index >= 0) value = static_cast<const T*>(take.from)[from];
  static_cast<T*>(take.to)[i] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_nd(const GatherNdIndices tuples, const T* from, T* to, std::int64_t inner) {
  const std::int64_t i = thread_index();
  if (i >= tuples.count * inner) return;
  const std::int64_t block = tuple_offset(tuples, i / inner);
  T value{};
  if (block >= 0) value = from[block + i % inner];
  to[i] = value;
}

}  // namespace

void run_gather(const GatherCall& take, const LaunchArgs& args) {
  const LiveLimit limit(args.live, take.total);
  with_width(take.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(take.total), gather<T>, take, limit);
  });
}

void run_gather_elements(const GatherElementsCall& take, const LaunchArgs& args) {
  with_width(take.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(take.total), gather_elements<T>, take);
  });
}

void run_gather_nd(const GatherNdIndices& tuples, const void* from, void* to, int width,
                   std::int64_t inner, const LaunchArgs& args) {
  with_width(width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(tuples.count * inner), gather_nd<T>, tuples,
           static_cast<const T*>(from), static_cast<T*>(to), inner);
  });
}

}  // namespace sluice::kernels::cuda
