// Elements go where indices say. What meets in one place is joined by one thread, in order.
#include "kernels/data_movement/element_width.cuh"
#include "kernels/data_movement/moves.h"

namespace sluice::kernels::cuda {
namespace {

template <class T>
__device__ T joined(Reduction how, T a, T b) {
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

// Elements that are only written.
struct Written {
  template <class T>
  __device__ static T of(Reduction, const T&, const T& b) {
    return b;
  }
};
struct Joined {
  template <class T>
  __device__ static T of(Reduction how, const T& a, const T& b) {
    return joined<T>(how, a, b);
  }
};

template <class T, class How>
__global__ void __launch_bounds__(kThreads)
    put_lines_kernel(const PutElements put, std::int64_t lines, Reduction how) {
  const std::int64_t line = place();
  if (line >= lines) return;
  const TakeElements& where = put.where;
  std::int64_t to = 0, at = 0, own_step = 1, axis_step = 1;  // in the target, in the indices
  auto rest = static_cast<unsigned>(line);
  for (int axis = where.rank - 1; axis >= 0; --axis) {
    const std::int64_t size = where.shape[axis].size;
    if (axis == put.axis) {
      axis_step = own_step;
    } else {
      const unsigned outer = quotient(where.shape[axis], rest);
      const unsigned own = rest - outer * where.shape[axis].size;
      to += own * where.step[axis];
      at += own * own_step;
      rest = outer;
    }
    own_step *= size;
  }
  const std::int64_t n = where.shape[put.axis].size;
  for (std::int64_t k = 0; k < n; ++k, at += axis_step) {
    const std::int64_t index =
        resolved(index_at(where.indices, where.long_indices, at), where.size, where.error);
    if (index < 0) continue;
    T& target = static_cast<T*>(where.to)[to + index * where.axis_step];
    target = How::template of<T>(how, target, static_cast<const T*>(where.from)[at]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    put_tuples_kernel(const Tuples tuples, const T* from, T* to, std::int64_t inner) {
  const std::int64_t i = place();
  if (i >= tuples.count * inner) return;
  const std::int64_t block = tuple_place(tuples, i / inner);
  if (block >= 0) to[block + i % inner] = from[i];
}

// A thread for each place within a block goes through all blocks.
template <class T>
__global__ void __launch_bounds__(kThreads)
    join_tuples_kernel(const Tuples tuples, const T* from, T* to, std::int64_t inner,
                       Reduction how) {
  const std::int64_t i = place();
  if (i >= inner) return;
  for (std::int64_t t = 0; t < tuples.count; ++t) {
    const std::int64_t block = tuple_place(tuples, t);
    if (block >= 0) to[block + i] = joined<T>(how, to[block + i], from[t * inner + i]);
  }
}

}  // namespace

void run_put_elements(const PutElements& put, Reduction how, NumberType type,
                      const LaunchArgs& args) {
  const std::int64_t lines = put.where.total / put.where.shape[put.axis].size;
  if (how == Reduction::none)
    return with_width(put.where.width, [&]<class T>(T) {
      launch(stream_of(args), grid_for(lines), put_lines_kernel<T, Written>, put, lines, how);
    });
  with_number(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(lines), put_lines_kernel<T, Joined>, put, lines, how);
  });
}

void run_put_tuples(const Tuples& tuples, const void* from, void* to, int width, std::int64_t inner,
                    Reduction how, NumberType type, const LaunchArgs& args) {
  if (how == Reduction::none)
    return with_width(width, [&]<class T>(T) {
      launch(stream_of(args), grid_for(tuples.count * inner), put_tuples_kernel<T>, tuples,
             static_cast<const T*>(from), static_cast<T*>(to), inner);
    });
  with_number(type, [&]<class T>(T) {
    launch(stream_of(args), grid_for(inner), join_tuples_kernel<T>, tuples,
           static_cast<const T*>(from), static_cast<T*>(to), inner, how);
  });
}

}  // namespace sluice::kernels::cuda
