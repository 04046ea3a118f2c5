// How the reader of ONNX files is cut: messages (read.cc), tensors (tensors.cc).
#pragma once

#include "formats/onnx/model.h"

namespace sluice::onnx {

// What every part of one file needs.
struct Source {
  std::shared_ptr<const void> keep;
  std::filesystem::path folder;
  std::map<std::string, std::pair<std::string_view, std::shared_ptr<const void>>, std::less<>>
      beside;  // files with external data, mapped once
};

struct NamedTensor {
  std::string_view name;
  Tensor tensor;
};
NamedTensor read_tensor(std::string_view bytes, Source& source);

// The file that external data at `location` lies in: a plain one below the model's folder, links
// followed. Throws invalid_argument where it is elsewhere, not_found where there is none.
std::filesystem::path external_file(const std::filesystem::path& folder, std::string_view location);

}  // namespace sluice::onnx
