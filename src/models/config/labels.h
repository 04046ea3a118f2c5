// The labels of a classifier, as its config.json names them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::models {

// What the outputs of a classifier mean: shares of one whole (softmax), each by itself (sigmoid),
// or the number itself.
enum class Problem { single_label, multi_label, regression };

struct Labels {
  std::vector<std::string> names;
  Problem problem = Problem::single_label;
};

// For a model with `count` outputs; those without a name are "LABEL_3". Throws invalid_argument
// with the file if config.json contradicts that.
Labels read_labels(const std::filesystem::path& folder, std::size_t count);

}  // namespace sluice::models
