// Safetensors files, mapped. The JSON header is parsed as a stream, so that a hostile header costs
// no more than its length.
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

// Aligned tensors are views of the mapped file, others are copied. Throws not_found, or
// invalid_argument with file, tensor and reason: tensors must cover the data without gaps or
// overlaps, as the format requires.
File read(const std::filesystem::path& file);

// The same from memory, which `keep` owns.
File parse(std::string_view bytes, const std::shared_ptr<const void>& keep);

}  // namespace sluice::safetensors
