// Elements that change places by rule: steps, turned tiles, tables.
#include "kernels/common/launch.cuh"
#include "kernels/data_movement/moves.h"
#include "kernels/data_movement/nchw_to_nhwc.cuh"

namespace sluice::kernels::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) move_kernel(const Move move) {
  const std::int64_t i = place();
  if (i >= move.total) return;
  std::int64_t from = move.from_first, to = move.to_first;
  auto rest = static_cast<unsigned>(i);
#pragma unroll
  for (int axis = kMostMoveAxes - 1; axis >= 0; --axis) {
    if (axis >= move.rank) continue;
    const unsigned outer = quotient(move.size[axis], rest),
                   own = rest - outer * move.size[axis].size;
    from += own * move.from_step[axis];
    to += own * move.to_step[axis];
    rest = outer;
  }
  static_cast<T*>(move.to)[to] = static_cast<const T*>(move.from)[from];
}

// A tile of the last two axes: read along the one before the last, written along the last.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    turn_kernel(const Move move, Divisor tiles_across, Divisor tiles_along) {
  __shared__ T tile[kTile][kTile + 1];
  const int last = move.rank - 1, across = last - 1;
  unsigned rest = blockIdx.x;
  unsigned outer = quotient(tiles_across, rest);
  const unsigned across_first = (rest - outer * tiles_across.size) * kTile;
  rest = outer;
  outer = quotient(tiles_along, rest);
  const unsigned along_first = (rest - outer * tiles_along.size) * kTile;
  rest = outer;
  std::int64_t from = move.from_first, to = move.to_first;
#pragma unroll
  for (int axis = kMostMoveAxes - 1; axis >= 0; --axis) {
    if (axis >= across) continue;
    outer = quotient(move.size[axis], rest);
    const unsigned own = rest - outer * move.size[axis].size;
    from += own * move.from_step[axis];
    to += own * move.to_step[axis];
    rest = outer;
  }
  const T* const source = static_cast<const T*>(move.from) + from;
  T* const target = static_cast<T*>(move.to) + to;
  const unsigned x = threadIdx.x;
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    const unsigned i = along_first + y, j = across_first + x;
    if (i < move.size[last].size && j < move.size[across].size)
      tile[y][x] = source[i * move.from_step[last] + j * move.from_step[across]];
  }
  __syncthreads();
  for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
    const unsigned i = along_first + x, j = across_first + y;
    if (i < move.size[last].size && j < move.size[across].size)
      target[i * move.to_step[last] + j * move.to_step[across]] = tile[x][y];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) table_kernel(const TableMove move) {
  const std::int64_t i = place();
  if (i >= move.total) return;
  std::int64_t from = 0;
  bool there = true;
  auto rest = static_cast<unsigned>(i);
#pragma unroll
  for (int axis = kMostMoveAxes - 1; axis >= 0; --axis) {
    if (axis >= move.rank) continue;
    const unsigned outer = quotient(move.size[axis], rest),
                   own = rest - outer * move.size[axis].size;
    const std::int32_t step = move.tables[move.table[axis] + static_cast<int>(own)];
    there = there && step >= 0;
    from += step;
    rest = outer;
  }
  T value{};
  if (there)
    value = static_cast<const T*>(move.from)[from];
  else if (move.fill != nullptr)
    value = *static_cast<const T*>(move.fill);
  static_cast<T*>(move.to)[i] = value;
}

template <class T>
void turn(const Move& move, const LaunchArgs& args) {
  const auto tiles = [&](int axis) {
    return (static_cast<std::int64_t>(move.size[axis].size) + kTile - 1) / kTile;
  };
  const std::int64_t across = tiles(move.rank - 2), along = tiles(move.rank - 1);
  std::int64_t blocks = across * along;
  for (int axis = 0; axis < move.rank - 2; ++axis) blocks *= move.size[axis].size;
  launch(stream_of(args), {dim3(static_cast<unsigned>(blocks)), dim3(kTile, kTileRows)},
         turn_kernel<T>, move, Divisor(across), Divisor(along));
}

}  // namespace

void run_move(const Move& move, const LaunchArgs& args) {
  with_width(move.width, [&]<class T>(T) {
    if (move.way == Move::Way::steps)
      launch(stream_of(args), grid_for(move.total), move_kernel<T>, move);
    else if (move.way == Move::Way::turn)
      turn<T>(move, args);
    else if constexpr (sizeof(T) <= 4)
      enqueue_weave<T>(move, stream_of(args));
  });
}

void run_table_move(const TableMove& move, const LaunchArgs& args) {
  with_width(move.width, [&]<class T>(T) {
    launch(stream_of(args), grid_for(move.total), table_kernel<T>, move);
  });
}

}  // namespace sluice::kernels::cuda
