// Strided copies of elements, from which data movement operators are built.
#pragma once

#include <vector>

#include "compute/workers.h"
#include "kernels/data_movement/copy_axis.h"
#include "tensor/tensor.h"

namespace sluice::engine {

using kernels::CopyAxis;

// A tensor and the offset of the first element to copy.
struct TensorOffset {
  const Tensor& tensor;
  std::int64_t at = 0;
};

// The axes may come in any order; no two elements may have the same target. Both tensors have
// elements of the same width, and the caller has checked the bounds.
void move_elements(TensorOffset from, TensorOffset to, std::vector<CopyAxis> axes,
                   compute::Workers& workers);

// Accounts for the bytes of strings that are about to be written to `tensor`.
void reserve_string_bytes(const Tensor& tensor, double bytes);

// Sets all elements to the single element of `value`.
void fill(const Tensor& tensor, const Tensor& value);

// Sets all bytes to zero (strings become empty).
void fill_zero(const Tensor& tensor);

// The tensor with permuted axes, contiguous in memory.
Tensor transposed(const Tensor& tensor, const std::vector<int>& order, compute::Workers& workers);

// Concatenates along an axis. Types and all other dimensions must agree.
Tensor concatenated(const std::vector<Tensor>& parts, int axis, compute::Workers& workers);
Shape concatenated_shape(const std::vector<Tensor>& parts, int axis);

// `count` elements along an axis starting at `begin`. The caller has checked the range.
Tensor slice_of(const Tensor& tensor, int axis, std::int64_t begin, std::int64_t count,
                compute::Workers& workers);

// Copies the blocks of `size` elements that begin at `offsets`, one after the other.
void gather_blocks(const Tensor& from, const Tensor& to, const std::vector<std::int64_t>& offsets,
                   std::int64_t size, compute::Workers& workers);

// Gathers indices along an axis. The caller has checked them.
Tensor gathered(const Tensor& tensor, int axis, const std::vector<std::int64_t>& indices,
                compute::Workers& workers);

}  // namespace sluice::engine
