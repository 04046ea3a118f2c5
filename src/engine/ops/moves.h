// Copies of elements from one arrangement in memory to another: what operators that only move
// elements are made of.
#pragma once

#include <vector>

#include "compute/workers.h"
#include "tensor/tensor.h"

namespace sluice::engine {

// One axis of a copy: how many elements, and how far apart they lie in the source (0 where
// one is repeated, negative where they are turned round) and in the target.
struct Move {
  std::int64_t size, from, to;
};

// A tensor, and where in it the first element of a copy lies.
struct Place {
  const Tensor& tensor;
  std::int64_t at = 0;
};

// The order of the axes is free; no two elements may go to one place. Both tensors have
// elements of one width, and the caller has checked that all lies within them.
void move_elements(Place from, Place to, std::vector<Move> axes, compute::Workers& workers);

// Counts the contents of strings that are about to be written to `tensor` as its memory.
void hold_strings(const Tensor& tensor, double bytes);

// All elements become that of `value`, which has one.
void fill(const Tensor& tensor, const Tensor& value);

// All bytes become zero (strings: empty).
void fill_zero(const Tensor& tensor);

// The axes of a tensor in another order, in memory too.
Tensor transposed(const Tensor& tensor, const std::vector<int>& order, compute::Workers& workers);

// The tensors behind each other along an axis. They agree in type and all other dimensions.
Tensor joined(const std::vector<Tensor>& parts, int axis, compute::Workers& workers);
Shape joined_shape(const std::vector<Tensor>& parts, int axis);

// `count` elements along an axis, from `begin` on. The caller has checked the range.
Tensor part_of(const Tensor& tensor, int axis, std::int64_t begin, std::int64_t count,
               compute::Workers& workers);

// Puts the blocks of `size` elements that begin at `places` behind each other.
void copy_blocks(const Tensor& from, const Tensor& to, const std::vector<std::int64_t>& places,
                 std::int64_t size, compute::Workers& workers);

// What lies at the indices along an axis. The caller has checked them.
Tensor taken(const Tensor& tensor, int axis, const std::vector<std::int64_t>& indices,
             compute::Workers& workers);

}  // namespace sluice::engine
