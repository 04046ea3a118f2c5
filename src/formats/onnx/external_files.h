// The files beside an ONNX model that its tensors lie in.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::onnx {

// The locations that tensors name, each once, as they stand there. Of what is no model, those up to
// where it is broken.
std::set<std::string> external_locations(std::string_view model);

// Those that read(file) takes data from, each once, by name. What it would refuse is left out.
// Looks at messages only: weights are not read. Throws not_found where `file` cannot be opened.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& file);

}  // namespace sluice::onnx
