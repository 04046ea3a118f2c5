// A Hugging Face model folder: config.json and model.safetensors, or several such files with an
// index.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/safetensors/safetensors.h"

namespace sluice::engine {

class HfFolder {
 public:
  // File names in the index must be plain names, so nothing outside the folder is read. Throws
  // not_found or invalid_argument with the reason.
  explicit HfFolder(const std::filesystem::path& folder);
  ~HfFolder();

  // The files that the constructor reads. Throws as it does.
  static std::vector<std::filesystem::path> files(const std::filesystem::path& folder);

  // Values of config.json. Throws invalid_argument if a value without a default is missing, or if
  // it has another type.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::int64_t default_value) const;
  double real(std::string_view key, double default_value) const;
  std::string text(std::string_view key, std::string_view default_value) const;
  bool flag(std::string_view key) const;  // false if missing
  // The first of "architectures", such as "BertForTokenClassification"; empty if missing.
  std::string architecture() const;

  bool has(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }
  // The tensor converted to f32. Throws invalid_argument if it is missing or has another shape.
  Tensor tensor(std::string_view name, const Shape& shape) const;
  // The size of its first dimension.
  std::int64_t rows(std::string_view name) const;

 private:
  void read_weights(const std::filesystem::path& file);
  const Json* find(std::string_view key) const;

  std::unique_ptr<Json> config_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace sluice::engine
