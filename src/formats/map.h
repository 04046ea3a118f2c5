// The bytes of a file as they were when it was opened, whatever happens to it afterwards: a mapped
// file that is truncated raises SIGBUS, and one that is overwritten mixes old bytes with new ones.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace sluice {

// `keep` holds the bytes. A large file that this process owns, on a local file system, is mapped
// under a lease (fcntl, F_SETLEASE): it costs no memory before it is used, and who wants to write
// to it or truncate it waits until a private copy has taken its place. Where that copy cannot be
// made, for want of memory or within the kernel's lease-break-time, the process is aborted: rather
// that than wrong results. A forked child has no such copy. Others are copied at once.
// Throws not_found where it cannot be opened, invalid_argument where it is no plain file or ends
// early, exhausted where it changes while it is copied or there is no memory.
std::string_view map_file(const std::filesystem::path& file, std::shared_ptr<const void>& keep);

// Whether there is a file or folder. Throws not_found, with its name, where nobody can tell: a
// folder on the way may not be entered, or the name is too long.
bool is_there(const std::filesystem::path& path);

}  // namespace sluice
