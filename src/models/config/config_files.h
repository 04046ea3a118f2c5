// The small JSON files of a model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"

namespace sluice::models {

inline constexpr std::size_t kMaxConfigBytes = 1u << 20;

// Throws invalid_argument.
[[noreturn]] void refuse_config(const std::string& why);

// Throws not_found, or invalid_argument with the file.
Json object_in(const std::filesystem::path& file);
// An empty object if the file is not there.
Json optional_object(const std::filesystem::path& file);

// The text of a key. Throws invalid_argument with the file if it is something else.
std::string text_of(const Json& object, const char* key, const std::filesystem::path& file,
                    const std::string& default_value = "");

// The tokens that the model has positions for; none if its config.json does not say.
std::optional<std::int64_t> positions_in(const std::filesystem::path& folder);

}  // namespace sluice::models
