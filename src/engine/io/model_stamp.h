// Identifies models on disk.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::engine {

// The files that import_file(path) reads: the .onnx file with its external data files, or the files
// of a Hugging Face folder. Throws not_found.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& path);

// Changes whenever one of model_files() is written or replaced, even by a file of the same size and
// time. Built from path, inode, size, mtime and ctime of each file, without reading contents.
std::string model_version(const std::filesystem::path& path);

// Throws exhausted if model_version() has changed meanwhile: some of several files may be old.
void require_version(const std::filesystem::path& path, std::string_view version);

// The key of cached plans: model_version() and a hash of every file, sampled at 16 blocks of 4 KB
// for larger files, because reading everything takes longer than loading a plan.
std::string model_stamp(const std::filesystem::path& path);

// The offset of sample 0 to 15 of a larger file: the first is at the start, the last ends at the
// end.
std::size_t sample_offset(std::size_t size, std::size_t sample);

// The hash of all bytes of all files, independent of their location.
std::string model_content(const std::filesystem::path& path);

}  // namespace sluice::engine
