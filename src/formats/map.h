// Maps files so that later changes are not visible. A plain mapping raises SIGBUS if the file is
// truncated, and mixes old and new bytes if it is overwritten.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sluice {

// `keep` owns the bytes. A large file that this process owns on a local file system is mapped under
// a lease (fcntl, F_SETLEASE): it takes no memory before it is used, and writers wait until a
// private copy replaces the mapping. If the copy fails, for lack of memory or because of the
// kernel's lease-break-time, the process aborts rather than compute wrong results. A forked child
// has no such copy. Other files are copied immediately. Throws not_found if the file cannot be
// opened, invalid_argument if it is not a regular file or is too short, exhausted if it changes
// while it is copied or memory is not sufficient.
std::string_view map_file(const std::filesystem::path& file, std::shared_ptr<const void>& keep);

// Returns parse(bytes, keep) of a mapped file. Errors of `parse` begin with the file's name.
template <class Parse>
auto parse_file(const std::filesystem::path& file, Parse parse) {
  std::shared_ptr<const void> keep;
  const std::string_view bytes = map_file(file, keep);
  try {
    return parse(bytes, keep);
  } catch (const Error& error) {
    throw Error(error.code(), file.string() + ": " + std::string(error.reason()));
  }
}

// Returns whether a file or folder exists. Throws not_found with its name if this cannot be
// determined: a parent folder is not accessible, or the name is too long.
bool is_there(const std::filesystem::path& path);

}  // namespace sluice
