// Small reads from /proc and /sys. A file that is missing, unreadable or not what
// was expected is an absent value, never an error: kernels differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::device {

using Path = std::filesystem::path;

// `absolute` seen from `root`: ("/tmp/tree", "/proc/stat") is "/tmp/tree/proc/stat".
Path under(const Path& root, std::string_view absolute);

// All of a regular file, its first 16 MiB at most. Never waits for a FIFO.
std::optional<std::string> read_text(const Path& file);
std::optional<std::string> read_line(const Path& file);    // without spaces at the ends
std::optional<std::int64_t> read_int(const Path& file);    // decimal, or hexadecimal after 0x
std::optional<std::uint64_t> read_size(const Path& file);  // "32K", "2048M", "123"; bytes

// Both take surrounding spaces and nothing else around the number.
std::optional<std::int64_t> to_int(std::string_view text);
std::optional<std::uint64_t> to_size(std::string_view text);

std::string_view trimmed(std::string_view text) noexcept;
std::vector<std::string_view> split(std::string_view text, char at);

// The names in `folder` that are `prefix` and then digits, in the order of the
// number: "cpu2" before "cpu10". Empty when there is no such folder.
std::vector<std::string> numbered(const Path& folder, std::string_view prefix);

// "0-3,8" as numbers, and back.
std::vector<unsigned> cpu_list(std::string_view text);
std::string to_cpu_list(const std::vector<unsigned>& cpus);

// PCI buses of the machine's NVIDIA GPUs, whatever their driver says; without those
// given to virtual machines.
std::vector<std::string> nvidia_cards(const Path& root);

}  // namespace sluice::device
