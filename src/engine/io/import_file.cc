// Imports a model file of either format.
#include "base/error.h"
#include "engine/io/hf_import.h"
#include "engine/io/model_stamp.h"
#include "engine/io/plan_magic.h"
#include "formats/map.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

Imported import_once(const fs::path& path) {
  fs::path file = path;
  if (std::error_code error; fs::is_directory(path, error)) {
    if (!is_there(path / "model.onnx")) {
      if (!is_there(path / "config.json"))
        throw Error(Code::not_found, path.string() + " has neither model.onnx nor config.json");
      Imported imported{.graph = import_hf(path), .format = "", .producer = ""};
      imported.format = "Hugging Face folder, " + imported.graph.name;
      imported.opsets[""] = kHfOpset;
      return imported;
    }
    file /= "model.onnx";
  }
  require(!is_plan(file), file.string() +
                              ": it is a plan, not a model: 'sluice run' and 'sluice bench model' "
                              "take it; give the model that it was compiled from");
  const onnx::Model model = onnx::read(file);
  Imported imported{.graph = {},
                    .format = "ONNX, IR " + std::to_string(model.ir_version),
                    .producer = std::string(model.producer)};
  if (!model.producer_version.empty())
    imported.producer += " " + std::string(model.producer_version);
  for (const auto& [domain, version] : model.opsets)
    imported.opsets[std::string(domain)] = static_cast<int>(version);
  try {
    imported.graph = import_onnx(model);
  } catch (const Error& error) {
    throw Error(error.code(), file.string() + ": " + std::string(error.reason()));
  }
  return imported;
}

}  // namespace

Imported import_file(const fs::path& path) {
  if (!is_there(path)) return import_once(path);  // throws not_found
  const std::string version = model_version(path);
  Imported imported = import_once(path);
  require_version(path, version);
  return imported;
}

}  // namespace sluice::engine
