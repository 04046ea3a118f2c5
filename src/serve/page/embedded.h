// The embedded bytes as the build made them; asset.h gives them meaning.
#pragma once

#include <span>
#include <string_view>

namespace sluice::serve::page {

struct EmbeddedFile {
  std::string_view name;  // relative to its folder: "app.js", "icons/logo.svg"
  const char* begin;
  const char* end;
};

// Defined in the file that embed.cmake writes.
std::span<const EmbeddedFile> embedded_files() noexcept;

}  // namespace sluice::serve::page
