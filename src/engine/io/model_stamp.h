// What tells a model on disk from another.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::engine {

// The files that import_file(path) reads: the .onnx file with those its tensors lie in, whatever
// they are called, or what a Hugging Face folder is made of. Throws not_found.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& path);

// Changes whenever one of model_files() is written to or replaced, also by one of the same size and
// time: of each file the path, inode, size and times (that of the last change of the inode cannot
// be set by anyone), without looking inside.
std::string model_version(const std::filesystem::path& path);

// Throws exhausted where model_version() is another by now: of several files some may be old.
void require_version(const std::filesystem::path& path, std::string_view version);

// What plans are kept by: model_version() and a hash of every file's bytes, of 16 samples of 4 KB
// where it is larger than that. Made without reading all, which takes longer than loading a plan.
std::string model_stamp(const std::filesystem::path& path);

// Where a sample of such a file begins, of 0 to 15: the first at its beginning, the last at the
// end less 4 KB.
std::size_t sample_offset(std::size_t size, std::size_t sample);

// Of all bytes of all files, wherever they lie: two models with the same one are the same.
std::string model_content(const std::filesystem::path& path);

}  // namespace sluice::engine
