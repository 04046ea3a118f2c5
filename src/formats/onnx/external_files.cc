#include "formats/onnx/external_files.h"

#include "base/error.h"
#include "formats/map.h"
#include "formats/onnx/parts.h"
#include "formats/onnx/wire.h"

namespace sluice::onnx {
namespace {

enum class Part { model, graph, node, attribute, sparse, function, tensor, entry, none };

// The messages that contain tensors. Field numbers are those of the format, as in read.cc.
Part part_in(Part part, int field) {
  switch (part) {
    case Part::model: return field == 7 ? Part::graph : field == 25 ? Part::function : Part::none;
    case Part::graph:
      if (field == 15) return Part::sparse;
      return field == 1 ? Part::node : field == 5 ? Part::tensor : Part::none;
    case Part::node: return field == 5 ? Part::attribute : Part::none;
    case Part::attribute:
      if (field == 22) return Part::sparse;
      if (field == 5 || field == 10) return Part::tensor;
      return field == 6 || field == 11 ? Part::graph : Part::none;
    case Part::sparse: return field == 1 || field == 2 ? Part::tensor : Part::none;
    case Part::function:
      return field == 7 ? Part::node : field == 11 ? Part::attribute : Part::none;
    case Part::tensor: return field == 13 ? Part::entry : Part::none;
    default: return Part::none;
  }
}

class Locations {
 public:
  void find(Part part, std::string_view bytes, int depth = 0) {
    constexpr int kMaxNestedMessages = 256;  // read() rejects more than 64 nested graphs
    require(depth < kMaxNestedMessages, "graphs nested too deep");
    if (part == Part::entry) return entry(bytes);
    for (Wire fields(bytes); fields.next();)
      if (const Part inner = part_in(part, fields.number()); inner != Part::none)
        find(inner, fields.bytes(), depth + 1);
  }

  std::set<std::string> found;

 private:
  void entry(std::string_view bytes) {
    std::string_view key, value;
    for (Wire fields(bytes); fields.next();) {
      if (fields.number() == 1) key = fields.bytes();
      if (fields.number() == 2) value = fields.bytes();
    }
    if (key == "location") found.emplace(value);
  }
};

}  // namespace

std::set<std::string> external_locations(std::string_view model) {
  Locations locations;
  try {
    locations.find(Part::model, model);
  } catch (const Error&) {  // reading the model reports the error
  }
  return std::move(locations.found);
}

std::vector<std::filesystem::path> external_files(const std::filesystem::path& file) {
  std::shared_ptr<const void> keep;
  const std::string_view bytes = map_file(file, keep);
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  std::set<std::filesystem::path> files;
  for (const std::string& location : external_locations(bytes)) try {
      files.insert(external_file(folder, location));
    } catch (const Error&) {
    }
  return {files.begin(), files.end()};
}

}  // namespace sluice::onnx
