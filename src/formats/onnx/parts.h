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

}  // namespace sluice::onnx
