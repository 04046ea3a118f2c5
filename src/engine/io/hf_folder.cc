#include "engine/io/hf_folder.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "formats/map.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxTextBytes = 1u << 20;  // bytes of config.json and of the index

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

Json json_in(const fs::path& file) {
  std::shared_ptr<const void> keep;
  const std::string_view text = map_file(file, keep);
  if (text.size() > kMaxTextBytes) refuse(file.string() + " is longer than 1 MiB");
  return parse_json_object(text, file.string());
}

template <class From>
Tensor widened(const Tensor& tensor) {
  Tensor wide(DType::f32, tensor.shape());
  const auto from = tensor.values<From>();
  std::copy(from.begin(), from.end(), wide.values<float>().begin());
  return wide;
}

// The files named by an index.
std::set<std::string> shards_in(const fs::path& index) {
  const Json json = json_in(index);
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) refuse(index.string() + " has no weight_map");
  std::set<std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) refuse(index.string() + ": weight_map holds something else than names");
    files.insert(file.get<std::string>());
  }
  for (const std::string& file : files)
    if (file.empty() || file == "." || file == ".." || fs::path(file).filename() != file)
      refuse(index.string() + " names a file outside of the folder: " + in_quotes(file));
  return files;
}

fs::path index_in(const fs::path& folder) { return folder / "model.safetensors.index.json"; }

std::vector<fs::path> weight_files(const fs::path& folder) {
  if (is_there(folder / "model.safetensors")) return {folder / "model.safetensors"};
  if (!is_there(index_in(folder)))
    throw Error(Code::not_found, folder.string() +
                                     " has no model.safetensors: save the model with "
                                     "save_pretrained(folder, safe_serialization=True)");
  std::vector<fs::path> all;
  for (const std::string& shard : shards_in(index_in(folder))) all.push_back(folder / shard);
  return all;
}

}  // namespace

HfFolder::HfFolder(const fs::path& folder)
    : config_(std::make_unique<Json>(json_in(folder / "config.json"))) {
  for (const fs::path& file : weight_files(folder)) read_weights(file);
}

HfFolder::~HfFolder() = default;

std::vector<fs::path> HfFolder::files(const fs::path& folder) {
  std::vector<fs::path> all = weight_files(folder);
  all.push_back(folder / "config.json");
  if (!is_there(folder / "model.safetensors")) all.push_back(index_in(folder));
  return all;
}

void HfFolder::read_weights(const fs::path& file) {
  for (auto& [name, tensor] : safetensors::read(file).tensors)
    if (!tensors_.emplace(name, std::move(tensor)).second)
      refuse("two files of " + file.parent_path().string() + " hold a tensor " + in_quotes(name));
}

const Json* HfFolder::find(std::string_view key) const {
  const auto found = config_->find(std::string(key));
  return found == config_->end() || found->is_null() ? nullptr : &*found;
}

std::int64_t HfFolder::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json* const value = find(key);
  if (value == nullptr) refuse("config.json lacks " + in_quotes(key));
  if (!value->is_number_integer() || *value < min || *value > max)
    refuse("config.json: " + std::string(key) + " must be an integer from " + std::to_string(min) +
           " to " + std::to_string(max));
  return value->get<std::int64_t>();
}

std::int64_t HfFolder::integer(std::string_view key, std::int64_t min, std::int64_t max,
                               std::int64_t default_value) const {
  return find(key) == nullptr ? default_value : integer(key, min, max);
}

double HfFolder::real(std::string_view key, double default_value) const {
  const Json* const value = find(key);
  if (value == nullptr) return default_value;
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    refuse("config.json: " + std::string(key) + " must be a number");
  return value->get<double>();
}

std::string HfFolder::text(std::string_view key, std::string_view default_value) const {
  const Json* const value = find(key);
  if (value == nullptr) return std::string(default_value);
  if (!value->is_string()) refuse("config.json: " + std::string(key) + " must be a text");
  return value->get<std::string>();
}

bool HfFolder::flag(std::string_view key) const {
  const Json* const value = find(key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::string HfFolder::architecture() const {
  const Json* const list = find("architectures");
  if (list == nullptr || !list->is_array() || list->empty()) return "";
  if (!list->front().is_string()) refuse("config.json: architectures must be a list of names");
  return list->front().get<std::string>();
}

Tensor HfFolder::tensor(std::string_view name, const Shape& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("there is no tensor " + in_quotes(name));
  const Tensor& tensor = found->second;
  if (tensor.shape() != shape)
    refuse("tensor " + in_quotes(name) + " is of shape " + to_string(tensor.shape()) +
           "; config.json makes it " + to_string(shape));
  switch (tensor.dtype()) {
    case DType::f32: return tensor;
    case DType::f16: return widened<Half>(tensor);
    case DType::bf16: return widened<BFloat16>(tensor);
    default:
      refuse("tensor " + in_quotes(name) + " is of " + std::string(to_string(tensor.dtype())) +
             "; f32, f16 and bf16 are read");
  }
}

std::int64_t HfFolder::rows(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("there is no tensor " + in_quotes(name));
  if (found->second.rank() == 0) refuse("tensor " + in_quotes(name) + " is a single number");
  return found->second.shape()[0];
}

}  // namespace sluice::engine
