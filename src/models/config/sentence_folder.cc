#include "models/config/sentence_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "formats/map.h"
#include "formats/safetensors/safetensors.h"
#include "models/config/config_files.h"

namespace sluice::models {
namespace {

namespace fs = std::filesystem;
using kernels::TokenPooling;

[[noreturn]] void unsupported(const std::string& why) { throw Error(Code::unavailable, why); }

// The list in modules.json, which is parsed as a field of an object.
Json modules_in(const fs::path& file) {
  std::shared_ptr<const void> keep;
  const std::string_view text = map_file(file, keep);
  if (text.size() > kMaxConfigBytes) refuse_config(file.string() + " is longer than 1 MiB");
  Json wrapped = parse_json_object(fmt::format("{{\"modules\": {}}}", text), file.string());
  Json& list = wrapped["modules"];
  if (wrapped.size() != 1 || !list.is_array() || list.empty())
    refuse_config(file.string() + " holds no list of modules");
  return std::move(list);
}

bool flag_of(const Json& object, const std::string& key, const fs::path& file) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return false;
  if (!found->is_boolean())
    refuse_config(fmt::format("{}: {} is not true or false", file.string(), key));
  return found->get<bool>();
}

// A folder inside `folder`; the folder itself if the path is empty.
fs::path inside(const fs::path& folder, const std::string& path) {
  if (path.empty()) return folder;
  if (path == "." || path == ".." || fs::path(path).filename() != path)
    refuse_config(fmt::format("{} names a folder outside of it: {}",
                              (folder / "modules.json").string(), in_quotes(path)));
  return folder / path;
}

TokenPooling pooling_in(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const Json config = object_in(file);
  constexpr std::pair<const char*, TokenPooling> kModes[] = {
      {"cls_token", TokenPooling::first},
      {"mean_tokens", TokenPooling::mean},
      {"lasttoken", TokenPooling::last},
  };
  if (config.contains("include_prompt") && !flag_of(config, "include_prompt", file))
    unsupported(file.string() + ": pooling without the prompt is not supported");
  std::optional<TokenPooling> pooling;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("pooling_mode_") || !flag_of(config, key, file)) continue;
    const std::string mode = key.substr(std::string_view("pooling_mode_").size());
    const auto* const known = std::ranges::find(kModes, mode, [](auto& one) { return one.first; });
    if (known == std::end(kModes) || pooling)
      unsupported(
          fmt::format("{}: pooling by {}{} is not supported (one of cls_token, "
                      "mean_tokens and lasttoken is)",
                      file.string(), pooling ? "several modes, also " : "", mode));
    pooling = known->second;
  }
  if (!pooling) refuse_config(file.string() + " names no pooling mode");
  return *pooling;
}

DenseActivation activation_named(const std::string& name, const fs::path& file) {
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  if (name.empty() || ends(".Identity")) return DenseActivation::none;
  if (ends(".Tanh")) return DenseActivation::tanh;
  if (ends(".ReLU")) return DenseActivation::relu;
  if (ends(".GELU")) return DenseActivation::gelu;
  unsupported(fmt::format("{}: activation {} is not supported (Identity, Tanh, ReLU, GELU are)",
                          file.string(), in_quotes(name)));
}

Dense dense_in(const fs::path& folder) {
  const fs::path config = folder / "config.json", file = folder / "model.safetensors";
  const Json settings = object_in(config);
  if (!is_there(file))
    throw Error(Code::not_found, file.string() +
                                     " is missing: save the model again with "
                                     "safe_serialization=True");
  auto tensors = safetensors::read(file).tensors;
  Dense dense{.weights = tensors["linear.weight"], .bias = tensors["linear.bias"]};
  const bool fits = dense.weights.dtype() == DType::f32 && dense.weights.rank() == 2 &&
                    dense.weights.size() > 0 &&
                    (!dense.bias || (dense.bias.dtype() == DType::f32 &&
                                     dense.bias.shape() == Shape{dense.out()}));
  if (!fits)
    refuse_config(file.string() + " holds no f32 linear.weight [out, in] with its bias [out]");
  dense.activation = activation_named(
      text_of(settings, "activation_function", config, "torch.nn.modules.activation.Tanh"), config);
  return dense;
}

// The shorter of what the folder says and what the model has positions for.
std::int64_t max_length_in(const fs::path& folder, std::optional<std::int64_t> positions) {
  fs::path file = folder / "sentence_bert_config.json";
  for (const char* other : {"roberta", "distilbert", "camembert", "xlm-roberta", "albert", "xlnet"})
    if (const fs::path named = folder / fmt::format("sentence_{}_config.json", other);
        !is_there(file) && is_there(named))
      file = named;
  const Json config = optional_object(file);
  if (flag_of(config, "do_lower_case", file))
    unsupported(file.string() + ": do_lower_case is not supported: save the tokenizer so");
  const auto found = config.find("max_seq_length");
  if (found == config.end() || found->is_null()) return positions.value_or(512);
  if (!found->is_number_integer() || *found < 2)
    refuse_config(file.string() + ": max_seq_length is no number of tokens");
  const std::int64_t length = found->get<std::int64_t>();
  return std::min(length, positions.value_or(length));
}

void read_prompts(const fs::path& folder, SentenceFolder& to) {
  const fs::path file = folder / "config_sentence_transformers.json";
  const Json config = optional_object(file);
  to.default_prompt = text_of(config, "default_prompt_name", file);
  const Json prompts = config.value("prompts", Json(nullptr));
  if (!prompts.is_null() && !prompts.is_object())
    refuse_config(file.string() + ": prompts is no object");
  for (const auto& [name, text] : prompts.items())
    to.prompts[name] = text_of(prompts, name.c_str(), file);
  if (!to.default_prompt.empty() && !to.prompts.contains(to.default_prompt))
    refuse_config(
        fmt::format("{}: there is no prompt {}", file.string(), in_quotes(to.default_prompt)));
}

void read_module(const fs::path& folder, const std::string& type, const std::string& path,
                 SentenceFolder& to) {
  const auto is = [&](const char* name) { return type.ends_with(name); };
  if (to.normalize) unsupported("a module after Normalize: " + in_quotes(type));
  if (is(".Transformer"))
    to.encoder = inside(folder, path);
  else if (is(".Pooling"))
    to.pooling = pooling_in(inside(folder, path));
  else if (is(".Dense"))
    to.dense.push_back(dense_in(inside(folder, path)));
  else if (is(".Normalize"))
    to.normalize = true;
  else
    unsupported(
        fmt::format("{}: module {} is not supported (Transformer, Pooling, Dense and "
                    "Normalize are)",
                    (folder / "modules.json").string(), in_quotes(type)));
}

}  // namespace

SentenceFolder read_sentence_folder(const fs::path& folder) {
  SentenceFolder made{.encoder = folder};
  const fs::path file = folder / "modules.json";
  if (is_there(file))
    for (const Json& module : modules_in(file)) {
      if (!module.is_object()) refuse_config(file.string() + " holds something else than modules");
      read_module(folder, text_of(module, "type", file), text_of(module, "path", file), made);
    }
  made.max_length = max_length_in(made.encoder, positions_in(made.encoder));
  read_prompts(folder, made);
  return made;
}

}  // namespace sluice::models
