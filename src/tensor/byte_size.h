// Sizes of tensors in bytes. Every byte size that depends on dimensions is computed here (checked
// by tools/check_tree.py): dimensions come from files, and an overflowing multiplication would
// accept too little data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace sluice {

// The size in memory, where sub-byte elements take one byte each; 0 for strings. Throws
// invalid_argument if a dimension is negative or the size is not addressable, even for an empty
// tensor whose other dimensions overflow, because its strides would wrap around.
std::size_t byte_size(std::span<const std::int64_t> dims, DType dtype);
std::size_t byte_size(std::span<const std::int64_t> dims, std::size_t element_bytes);

inline std::size_t byte_size(const Shape& shape, DType dtype) {
  return byte_size(shape.dims(), dtype);
}
inline std::size_t byte_size(const Shape& shape, std::size_t element_bytes) {
  return byte_size(shape.dims(), element_bytes);
}

// The size in a file, where sub-byte elements are packed. Throws as byte_size does.
std::size_t packed_byte_size(std::span<const std::int64_t> dims, DType dtype);

}  // namespace sluice
