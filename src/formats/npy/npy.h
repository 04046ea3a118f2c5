// NumPy .npy files with one array each: versions 1 to 3, either byte order, C or Fortran order.
// NumPy S and U arrays become strings.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace sluice::npy {

// Maps the file if its elements can be used in place, else copies it. Throws not_found, or
// invalid_argument with the file and the reason. Sizes in the header are checked before allocation.
Tensor read(const std::filesystem::path& file);

// The same from memory, which `keep` owns.
Tensor parse(std::string_view bytes, const std::shared_ptr<const void>& keep);

// Formats a version 1 file. Types that NumPy lacks are widened: bf16 and the 8- and 4-bit floats to
// f32, sub-byte integers to 8 bits. Throws invalid_argument if a string is not UTF-8.
std::string format(const Tensor& tensor);

// Writes a file atomically and creates its folder. Throws unavailable if it cannot be written.
void write(const std::filesystem::path& file, const Tensor& tensor);

}  // namespace sluice::npy
