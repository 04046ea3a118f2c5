#include "models/config/labels.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "models/config/config_files.h"

namespace sluice::models {
namespace {

Problem problem_named(const std::string& name, std::size_t count,
                      const std::filesystem::path& file) {
  if (name.empty()) return count == 1 ? Problem::regression : Problem::single_label;
  if (name == "single_label_classification") return Problem::single_label;
  if (name == "multi_label_classification") return Problem::multi_label;
  if (name == "regression") return Problem::regression;
  throw Error(Code::unavailable,
              fmt::format("{}: problem_type {} is not known", file.string(), in_quotes(name)));
}

}  // namespace

Labels read_labels(const std::filesystem::path& folder, std::size_t count) {
  const std::filesystem::path file = folder / "config.json";
  const Json config = optional_object(file);
  Labels labels;
  for (std::size_t i = 0; i < count; ++i) labels.names.push_back(fmt::format("LABEL_{}", i));
  const Json named = config.value("id2label", Json::object());
  require(named.is_object() || named.is_null(), file.string() + ": id2label is no object");
  for (const auto& [key, name] : named.items()) {
    std::size_t id = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    require(read.ec == std::errc() && read.ptr == key.data() + key.size() && id < count &&
                name.is_string(),
            fmt::format("{}: id2label has {}, and the model {} outputs", file.string(),
                        in_quotes(key), count));
    labels.names[id] = name.get<std::string>();
  }
  labels.problem = problem_named(text_of(config, "problem_type", file), count, file);
  return labels;
}

}  // namespace sluice::models
