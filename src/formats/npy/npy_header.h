// The header of a .npy file: a Python dictionary with three keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace sluice::npy {

struct Header {
  char order = '<';       // of bytes: < little, > big, | of no matter
  char kind = 0;          // NumPy's letter: b i u f c S U
  std::size_t width = 0;  // bytes of an element; letters of a U
  bool fortran = false;   // the first axis runs fastest
  std::vector<std::int64_t> shape{};
  std::size_t begin = 0;  // of the elements in the file

  std::size_t element_bytes() const noexcept { return kind == 'U' ? 4 * width : width; }
};

// Throws invalid_argument with what is wrong.
Header read_header(std::string_view file);

// With the elements beginning at a multiple of 64. `descr` as "<f4".
std::string write_header(std::string_view descr, std::span<const std::int64_t> shape);

// none where NumPy's type has no counterpart.
DType dtype_of(const Header& header) noexcept;
// Empty where NumPy has no such type, and for strings, whose width is their own.
std::string_view descr_of(DType type) noexcept;

}  // namespace sluice::npy
