// Internals shared by the ONNX reader: messages (read.cc), tensors (tensors.cc).
#pragma once

#include "formats/onnx/model.h"

namespace sluice::onnx {

// The state of reading one file.
struct Source {
  std::shared_ptr<const void> keep;
  std::filesystem::path folder;
  std::map<std::string, std::pair<std::string_view, std::shared_ptr<const void>>, std::less<>>
      beside;  // external data files, each mapped once
};

struct NamedTensor {
  std::string_view name;
  Tensor tensor;
};
NamedTensor read_tensor(std::string_view bytes, Source& source);

// Resolves the file of external data at `location`: a regular file below the model's folder after
// following links. Throws invalid_argument if it is elsewhere, not_found if it does not exist.
std::filesystem::path external_file(const std::filesystem::path& folder, std::string_view location);

}  // namespace sluice::onnx
