#include "cli/model/quantize_data.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cli/model/model_values.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

std::string input_list(const engine::Graph& graph) {
  std::string text = "\n";
  for (const engine::ValueId id : graph.inputs) text += "  " + graph[id].name + ".npy\n";
  return text;
}

}  // namespace

Samples::Samples(const engine::Graph& graph, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) add(graph, path);
}

void Samples::add(const engine::Graph& graph, const std::string& path) {
  if (!fs::exists(path)) throw Error(Code::not_found, path + ": no such file or folder");
  if (!fs::is_directory(path)) {
    require(graph.inputs.size() == 1,
            path + ": the model has " + std::to_string(graph.inputs.size()) +
                " inputs: give a folder for each set of them, with" + input_list(graph));
    files_.push_back({path});
    return;
  }
  if (add_folder(graph, path)) return;
  const std::size_t before = files_.size();
  for (const fs::path& entry : entries(path)) {
    if (fs::is_directory(entry)) add_folder(graph, entry.string());
    if (graph.inputs.size() == 1 && entry.extension() == ".npy") files_.push_back({entry.string()});
  }
  require(files_.size() > before,
          path + ": no set of inputs in it, nor in its folders. A set is a folder with" +
              input_list(graph));
}

bool Samples::add_folder(const engine::Graph& graph, const std::string& folder) {
  std::vector<std::string> set;
  for (const engine::ValueId id : graph.inputs) {
    const fs::path file = fs::path(folder) / (graph[id].name + ".npy");
    if (!fs::exists(file)) return false;
    set.push_back(graph[id].name + "=" + file.string());
  }
  files_.push_back(std::move(set));
  return true;
}

std::vector<Tensor> Samples::get(const engine::Graph& graph, std::size_t i) const {
  return random() ? engine::random_inputs(graph, types_, i + 1) : read_inputs(graph, files_[i]);
}

}  // namespace sluice::cli
