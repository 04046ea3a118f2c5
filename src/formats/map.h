// A file's bytes, mapped: they cost no memory before they are used.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace sluice {

// `keep` holds the mapping. Throws not_found where it cannot be opened, invalid_argument
// where it is no plain file.
std::string_view map_file(const std::filesystem::path& file, std::shared_ptr<const void>& keep);

}  // namespace sluice
