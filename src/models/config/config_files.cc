#include "models/config/config_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/map.h"

namespace sluice::models {

namespace fs = std::filesystem;

void refuse_config(const std::string& why) { throw Error(Code::invalid_argument, why); }

Json object_in(const fs::path& file) {
  std::shared_ptr<const void> keep;
  const std::string_view text = map_file(file, keep);
  if (text.size() > kMaxConfigBytes) refuse_config(file.string() + " is longer than 1 MiB");
  return parse_json_object(text, file.string());
}

Json optional_object(const fs::path& file) {
  return is_there(file) ? object_in(file) : Json::object();
}

std::string text_of(const Json& object, const char* key, const fs::path& file,
                    const std::string& default_value) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return default_value;
  if (!found->is_string()) refuse_config(fmt::format("{}: {} is not a text", file.string(), key));
  return found->get<std::string>();
}

std::optional<std::int64_t> positions_in(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const Json config = optional_object(file);
  const auto integer = [&](const char* key) -> std::optional<std::int64_t> {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  };
  const std::string type = text_of(config, "model_type", file);
  const bool offset = type.find("roberta") != std::string::npos || type == "camembert";
  const auto positions = integer("max_position_embeddings");
  if (positions && *positions < 2) refuse_config(file.string() + ": max_position_embeddings");
  return positions && offset ? *positions - integer("pad_token_id").value_or(1) - 1 : positions;
}

}  // namespace sluice::models
