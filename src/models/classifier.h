// Texts to scores of labels: topics, sentiment, the relevance of a passage for a query.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "models/config/labels.h"
#include "models/text_model.h"

namespace sluice::models {

struct Classified {
  std::vector<float> scores;      // of each text, one for each label
  std::vector<TextError> errors;  // their scores are zeros
  std::vector<std::size_t> truncated;
};

// Models with an output "logits" [batch, labels]: ...ForSequenceClassification of transformers, or
// such an export to ONNX.
class Classifier {
 public:
  Classifier(const std::filesystem::path& folder, compute::Workers& workers,
             std::optional<std::int64_t> max_length = std::nullopt,
             const Placement& placement = {});

  const Labels& labels() const noexcept { return labels_; }
  std::int64_t max_length() const { return model_.max_length(); }

  // Softmax, sigmoid or the number itself, as labels().problem says. `raw`: logits.
  Classified classify(std::span<const Text> texts, bool raw = false) const;

 private:
  TextModel model_;
  Labels labels_;
};

}  // namespace sluice::models
