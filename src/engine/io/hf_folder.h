// A model's folder as Hugging Face lays it out: config.json beside model.safetensors, or
// beside several such files with their index.
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
  // Files are named in it by plain names only: nothing a file says leads elsewhere. Throws
  // not_found or invalid_argument, with what is missing or wrong.
  explicit HfFolder(const std::filesystem::path& folder);
  ~HfFolder();

  // Those that the constructor reads. Throws as it does.
  static std::vector<std::filesystem::path> files(const std::filesystem::path& folder);

  // Of config.json. Throws invalid_argument where it is missing (in the forms without a
  // stand-in) or of another kind.
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  bool flag(std::string_view key) const;  // false where it is missing

  bool has(std::string_view tensor) const { return tensors_.find(tensor) != tensors_.end(); }
  // As f32, whatever it is stored as. Throws invalid_argument where it is missing or of
  // another shape.
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
