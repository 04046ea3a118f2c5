// Copies that permute elements: strided, tiled transposes and index tables.
#include "kernels/common/launch.cuh"
#include "kernels/data_movement/data_movement.h"
#include "kernels/data_movement/nchw_to_nhwc.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) strided_copy(const StridedCopyCall copy) {
  const std::int64_t i = thread_index();
  if (i >= copy.total) return;
  std::int64_t from = copy.from_first, to = copy.to_first;
  unravel_index(copy.size, copy.rank, static_cast<unsigned>(i), [&](int axis, unsigned own) {
    from += own * copy.from_stride[axis];
    to += own * copy.to_stride[axis];
  });
  static_cast<T*>(copy.to)[to] = static_cast<const T*>(copy.from)[from];
}

// Transposes a tile of the last two axes: reads along the one before the last, writes along the
// last.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_tiled(const StridedCopyCall copy, Divisor tiles_across, Divisor tiles_along) {
  __shared__ T tile[kTile][kTile + 1];
  const int last = copy.rank - 1, across = last - 1;
  unsigned rest = blockIdx.x;
  unsigned outer = quotient(tiles_across, rest);
  const unsigned across_first = (rest - outer * tiles_across.size) * kTile;
  rest = outer;
  outer = quotient(tiles_along, rest);
  const unsigned along_first = (rest - outer * tiles_along.size) * kTile;
  rest = outer;
  std::int64_t from = copy.from_first, to = copy.to_first;
  unravel_index(copy.size, across, rest, [&](int axis, unsigned own) {
    from += own * copy.from_stride[axis];
    to += own * copy.to_stride[axis];
  });
  const T* const source = static_cast<const T*>(copy.from) + from;
  T* const target = static_cast<T*>(copy.to) + to;
  const unsigned x = threadIdx.x;
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    const unsigned i = along_first + y, j = across_first + x;
    if (i < copy.size[last].size && j < copy.size[across].size)
      tile[y][x] = source[i * copy.from_stride[last] + j * copy.from_stride[across]];
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    const unsigned i = along_first + x, j = across_first + y;
    if (i < copy.size[last].size && j < copy.size[across].size)
      target[i * copy.to_stride[last] + j * copy.to_stride[across]] = tile[x][y];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) index_table_copy(const IndexTableCopyCall copy) {
  const std::int64_t i = thread_index();
  if (i >= copy.total) return;
  std::int64_t from = 0;
  bool there = true;
  unravel_index(copy.size, copy.rank, static_cast<unsigned>(i), [&](int axis, unsigned own) {
    const std::int32_t step = copy.tables[copy.table[axis] + static_cast<int>(own)];
    there = there && step >= 0;
    from += step;
  });
  T value{};
  if (there)
    value = static_cast<const T*>(copy.from)[from];
  else if (copy.fill != nullptr)
    value = *static_cast<const T*>(copy.fill);
  static_cast<T*>(copy.to)[i] = value;
}

template <class T>
void enqueue_transpose_tiled(const StridedCopyCall& copy, const LaunchArgs& args) {
  const auto tiles = [&](int axis) {
    return (static_cast<std::int64_t>(copy.size[axis].size) + kTile - 1) / kTile;
  };
  const std::int64_t across = tiles(copy.rank - 2), along = tiles(copy.rank - 1);
  std::int64_t blocks = across * along;
  for (int axis = 0; axis < copy.rank - 2; ++axis) blocks *= copy.size[axis].size;
  launch(stream_of(args), {dim3(static_cast<unsigned>(blocks)), dim3(kTile, kTileRows)},
         transpose_tiled<T>, copy, Divisor(across), Divisor(along));
}

}  // namespace

void run_strided_copy(const StridedCopyCall& copy, const LaunchArgs& args) {
  with_width(copy.width, [&]<class T>(T) {
    if (copy.algorithm == StridedCopyCall::Algorithm::strided)
      launch(stream_of(args), grid_for(copy.total), strided_copy<T>, copy);
    else if (copy.algorithm == StridedCopyCall::Algorithm::tiled_transpose)
      enqueue_transpose_tiled<T>(copy, args);
    else if constexpr (sizeof(T) <= 4)
      enqueue_interleave<T>(copy, stream_of(args));
  });
}

void run_index_table_copy(const IndexTableCopyCall& copy, const LaunchArgs& args) {
  with_width(copy.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(copy.total), index_table_copy<T>, copy);
  });
}

}  // namespace sluice::kernels::cuda
