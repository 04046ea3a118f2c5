// Data to calibrate and judge a model with: files of inputs, or random numbers.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/shapes/specialize.h"

namespace sluice::cli {

// Sets of inputs, read on demand.
class Samples {
 public:
  Samples() = default;

  // Each of `paths` is a .npy file with the only input there is, or a folder: with INPUT.npy for
  // each input, with folders of that kind, or with .npy files of the only input. Throws
  // invalid_argument with what was looked for, not_found where there is no such path.
  Samples(const engine::Graph& graph, const std::vector<std::string>& paths);
  // So many sets of random inputs of these types.
  Samples(std::vector<engine::TensorType> types, std::size_t count)
      : types_(std::move(types)), count_(count) {}

  bool random() const noexcept { return !types_.empty(); }
  std::size_t size() const noexcept { return random() ? count_ : files_.size(); }
  // Throws as read_inputs does. `graph` has the inputs that it was made with.
  std::vector<Tensor> get(const engine::Graph& graph, std::size_t i) const;

 private:
  void add(const engine::Graph& graph, const std::string& path);
  bool add_folder(const engine::Graph& graph, const std::string& folder);

  std::vector<std::vector<std::string>> files_;  // of a set, as read_inputs takes them
  std::vector<engine::TensorType> types_;        // of random ones
  std::size_t count_ = 0;
};

}  // namespace sluice::cli
