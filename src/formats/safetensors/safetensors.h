// Safetensors files: tensors by name, mapped. The header is JSON of a fixed form, read as it
// comes, so that a hostile one costs no more than its length.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace sluice::safetensors {

struct File {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

// Tensors lie in the file, which they keep, where they are aligned, and are copied otherwise.
// Throws not_found, or invalid_argument with the file, the tensor and what is wrong: tensors
// must cover the data without gaps or overlaps, as the format says.
File read(const std::filesystem::path& file);

// The same from memory, which `keep` holds.
File parse(std::string_view bytes, const std::shared_ptr<const void>& keep);

}  // namespace sluice::safetensors
