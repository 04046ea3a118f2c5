// How many bytes the elements of a tensor take. Every size in bytes that follows from dimensions
// is computed here (tools/check_tree.py sees to it): dimensions come from files, and a product
// that wraps around makes a few bytes of data look like enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

// In memory, where elements of fewer than 8 bits take a byte each; 0 for strings. Throws
// invalid_argument where a dimension is negative or the size is beyond what memory can address,
// also for an empty tensor whose other dimensions are: its strides would wrap around.
std::size_t byte_size(std::span<const std::int64_t> dims, DType dtype);
std::size_t byte_size(std::span<const std::int64_t> dims, std::size_t element_bytes);

inline std::size_t byte_size(const Shape& shape, DType dtype) {
  return byte_size(shape.dims(), dtype);
}
inline std::size_t byte_size(const Shape& shape, std::size_t element_bytes) {
  return byte_size(shape.dims(), element_bytes);
}

// In a file, where elements of fewer than 8 bits lie side by side. Throws as byte_size does.
std::size_t packed_byte_size(std::span<const std::int64_t> dims, DType dtype);

}  // namespace sluice
