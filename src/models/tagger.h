// Texts to the entities in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/config/labels.h"
#include "models/text_model.h"

namespace sluice::models {

struct Entity {
  std::string type;        // "PER": without B- and I-
  std::size_t begin, end;  // in code points of the text
  float score;             // the mean of its words'
  std::string text;
};

struct Tagged {
  std::vector<std::vector<Entity>> entities;  // of each text, in order
  std::vector<TextError> errors;
  std::vector<std::size_t> truncated;
};

// How the tokens of a word give its label: that of its first, that of the highest score, or that of
// the highest mean score.
enum class WordLabel { first, highest, mean };

// Models with an output "logits" [batch, length, labels]: ...ForTokenClassification of
// transformers, or such an export to ONNX.
class Tagger {
 public:
  Tagger(const std::filesystem::path& folder, compute::Workers& workers,
         std::optional<std::int64_t> max_length = std::nullopt, const Placement& placement = {});

  const Labels& labels() const noexcept { return labels_; }
  std::int64_t max_length() const { return model_.max_length(); }

  Tagged tag(std::span<const Text> texts, WordLabel rule = WordLabel::first) const;

 private:
  TextModel model_;
  Labels labels_;
};

}  // namespace sluice::models
