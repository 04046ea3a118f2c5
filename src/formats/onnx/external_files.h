// External data files of an ONNX model.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::onnx {

// The locations named by tensors, each once, unresolved. For malformed models, those up to the
// error.
std::set<std::string> external_locations(std::string_view model);

// The files that read(file) reads data from, each once, sorted by name, without those it would
// reject. Parses messages only, not weights. Throws not_found if `file` cannot be opened.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& file);

}  // namespace sluice::onnx
