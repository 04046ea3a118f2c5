// Elements identified by their width in bytes, and helpers for kernels with one thread for each
// element.
#pragma once

#include "kernels/common/element.cuh"
#include "kernels/common/grid.cuh"
#include "kernels/data_movement/data_movement.h"

namespace sluice::kernels::cuda {

inline constexpr int kThreads = 256;

__device__ inline unsigned quotient(const Divisor& by, unsigned n) {
  return (__umulhi(n, by.multiply) + n) >> by.shift;
}
__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
// Unravels a linear index: calls body(axis, index along it), the innermost axis first.
template <class Body>
__device__ void unravel_index(const Divisor (&sizes)[kMaxCopyAxes], int rank, unsigned linear,
                              const Body& body) {
#pragma unroll
  for (int axis = kMaxCopyAxes - 1; axis >= 0; --axis) {
    if (axis >= rank) continue;
    const unsigned outer = quotient(sizes[axis], linear);
    body(axis, linear - outer * sizes[axis].size);
    linear = outer;
  }
}
inline Grid grid_for(std::int64_t threads) { return one_each(threads, kThreads); }

// Calls body(T{}) with a T of that pixels bytes.
template <class Body>
void with_width(int width, const Body& body) {
  switch (width) {
    case 1: return body(std::uint8_t{});
    case 2: return body(std::uint16_t{});
    case 4: return body(std::uint32_t{});
    case 8: return body(uint2{});
    default: return body(uint4{});
  }
}

__device__ inline std::int64_t index_at(const void* indices, bool is_long, std::int64_t i) {
  return is_long ? static_cast<const std::int64_t*>(indices)[i]
                 : static_cast<const std::int32_t*>(indices)[i];
}
__device__ inline void report(const ErrorFlag& error) {
  if (error.first != nullptr) atomicMin(error.first, error.step);
}
// Resolves a negative index from the end. Returns -1 and reports an index out of range.
__device__ inline std::int64_t resolve_index(std::int64_t index, std::int64_t size,
                                             const ErrorFlag& error) {
  if (index < 0) index += size;
  if (index >= 0 && index < size) return index;
  report(error);
  return -1;
}
// The length of a sequence. Reports a length outside of [0, max_length] and clamps it to
// max_length.
__device__ inline std::int64_t length_at(const void* lengths, bool is_long, std::int64_t i,
                                         std::int64_t max_length, const ErrorFlag& error) {
  const std::int64_t length = index_at(lengths, is_long, i);
  if (length < 0 || length > max_length) report(error);
  return min(max_length, length);
}

// The offset of the slice that an index tuple selects; -1 where an index is out of range.
__device__ inline std::int64_t tuple_offset(const GatherNdIndices& tuples, std::int64_t which) {
  std::int64_t at = which / tuples.tuples_per_batch * tuples.batch_stride;
  for (int d = 0; d < tuples.depth; ++d) {
    const std::int64_t index =
        resolve_index(index_at(tuples.indices, tuples.long_indices, which * tuples.depth + d),
                      tuples.size[d], tuples.error);
    if (index < 0) return -1;
    at += index * tuples.stride[d];
  }
  return at;
}

// Calls body(T{}) with the type.
template <class Body>
void with_numeric_type(NumberType type, const Body& body) {
  switch (type) {
    case NumberType::f32: return body(float{});
    case NumberType::f16: return body(__half{});
    case NumberType::bf16: return body(__nv_bfloat16{});
    case NumberType::i32: return body(std::int32_t{});
    default: return body(std::int64_t{});
  }
}

}  // namespace sluice::kernels::cuda
