#include "models/classifier.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sluice::models {
namespace {

void softmax(std::span<float> row) {
  const float largest = *std::ranges::max_element(row);
  double sum = 0;
  for (float& x : row) sum += static_cast<double>(x = std::exp(x - largest));
  for (float& x : row) x = static_cast<float>(static_cast<double>(x) / sum);
}

void to_scores(Problem problem, std::span<float> row) {
  if (problem == Problem::single_label) softmax(row);
  if (problem == Problem::multi_label)
    for (float& x : row) x = 1 / (1 + std::exp(-x));
}

}  // namespace

Classifier::Classifier(const std::filesystem::path& folder, compute::Workers& workers,
                       std::optional<std::int64_t> max_length, const Placement& placement)
    : model_(folder, workers,
             {.output = "logits", .max_length = max_length, .placement = placement}),
      labels_(read_labels(folder, model_.width())) {
  if (!model_.per_text())
    throw Error(Code::unavailable, folder.string() + ": its logits are of tokens: sluice tag");
}

Classified Classifier::classify(std::span<const Text> texts, bool raw) const {
  TextModel::Result result = model_.run(texts);
  const std::size_t width = model_.width();
  auto error = result.errors.begin();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (error != result.errors.end() && error->text == i)
      ++error;
    else if (!raw)
      to_scores(labels_.problem, std::span(result.rows).subspan(i * width, width));
  }
  return {std::move(result.rows), std::move(result.errors), std::move(result.truncated)};
}

}  // namespace sluice::models
