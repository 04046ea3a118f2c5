// NumPy's .npy files: one array each. Versions 1 to 3, either byte order, either order of
// elements; NumPy's texts (S and U) are strings here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace sluice::npy {

// Mapped where the file's elements can be used as they lie, copied otherwise. Throws
// not_found, or invalid_argument with the file and what is wrong: nothing is allocated on a
// header's word.
Tensor read(const std::filesystem::path& file);

// The same from memory, which `keep` holds.
Tensor parse(std::string_view bytes, const std::shared_ptr<const void>& keep);

// A file of version 1. Types that NumPy lacks are widened: bf16 and the 8- and 4-bit floats
// to f32, integers below 8 bits to 8. Throws invalid_argument where a string is no UTF-8.
std::string format(const Tensor& tensor);

// The same into a file, which appears whole or not at all; its folder is made. Throws
// unavailable where it cannot be written.
void write(const std::filesystem::path& file, const Tensor& tensor);

}  // namespace sluice::npy
