// From the label scores of tokens to words, and from words to entities. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "models/tagger.h"

namespace sluice::models {

struct LabeledWord {
  std::size_t label;       // an index into the labels
  float score;             // of that label
  std::size_t begin, end;  // in code points
};

// Special tokens belong to no word. `shares`: one row of label probabilities for each token.
std::vector<LabeledWord> words_of(const text::Encoding& encoding, std::span<const float> shares,
                                  const Labels& labels, WordLabel rule);

// Words of one type that follow each other are one entity, unless the second begins one ("B-").
// Labels without a prefix count as "I-"; "O" is none.
std::vector<Entity> entities_of(std::span<const LabeledWord> words, const Labels& labels,
                                std::string_view text);

}  // namespace sluice::models
