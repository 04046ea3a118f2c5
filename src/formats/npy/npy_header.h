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
  char order = '<';       // byte order: < little, > big, | not applicable
  char kind = 0;          // NumPy type kind: b i u f c S U
  std::size_t width = 0;  // bytes of an element; characters for U
  bool fortran = false;   // column-major
  std::vector<std::int64_t> shape{};
  std::size_t begin = 0;  // offset of the elements in the file

  std::size_t element_bytes() const noexcept { return kind == 'U' ? 4 * width : width; }
};

// Throws invalid_argument.
[[noreturn]] void refuse(const std::string& why);

// Throws invalid_argument with the reason.
Header read_header(std::string_view file);

// Aligns the elements to 64 bytes. `descr` is a type such as "<f4".
std::string write_header(std::string_view descr, std::span<const std::int64_t> shape);

// none if the NumPy type has no counterpart.
DType dtype_of(const Header& header) noexcept;
// Empty if NumPy has no such type, and for strings, whose width varies.
std::string_view descr_of(DType type) noexcept;

}  // namespace sluice::npy
