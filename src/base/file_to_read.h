// Files that a person or a model names, opened without waiting: to open a FIFO waits for a writer,
// and a device may have no end.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

namespace sluice {

// A descriptor of a regular file, or of what this process was given by name: /dev/null, a terminal
// or a pipe below /dev (/dev/stdin, `<(command)` of a shell). -1, and errno says why, for others.
int open_to_read(const std::filesystem::path& file) noexcept;

// All of it, or its first `max_bytes` bytes; none, and errno says why, where it cannot be read.
std::optional<std::string> read_named_file(
    const std::filesystem::path& file,
    std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace sluice
