#include "models/entities.h"

#include <algorithm>
#include <optional>
#include <string>

namespace sluice::models {
namespace {

struct Tag {
  std::string_view type;
  bool begins;
};

// None of "O".
std::optional<Tag> tag_of(std::string_view label) {
  if (label == "O") return std::nullopt;
  const bool prefixed = label.size() > 2 && label[1] == '-';
  return Tag{prefixed ? label.substr(2) : label, prefixed && (label[0] == 'B' || label[0] == 'S')};
}

std::size_t largest(std::span<const float> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

// The label of the tokens [begin, end) of one word.
LabeledWord label_of(std::span<const float> shares, std::size_t width, WordLabel rule) {
  std::vector<float> row(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(width));
  const std::size_t tokens = shares.size() / width;
  if (rule == WordLabel::highest)
    for (std::size_t t = 1; t < tokens; ++t) {
      const auto other = shares.subspan(t * width, width);
      if (other[largest(other)] > row[largest(row)]) row.assign(other.begin(), other.end());
    }
  if (rule == WordLabel::mean)
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t t = 1; t < tokens; ++t) row[i] += shares[t * width + i];
      row[i] /= static_cast<float>(tokens);
    }
  const std::size_t label = largest(row);
  return {label, row[label], 0, 0};
}

// The bytes of code points [begin, end).
std::string cut(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t at = 0, from = text.size(), point = 0;
  for (; at < text.size() && point < end; ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
    if (point == begin) from = at;
    ++point;
  }
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return from < at ? std::string(text.substr(from, at - from)) : "";
}

}  // namespace

std::vector<LabeledWord> words_of(const text::Encoding& encoding, std::span<const float> shares,
                                  const Labels& labels, WordLabel rule) {
  const std::size_t width = labels.names.size();
  std::vector<LabeledWord> words;
  for (std::size_t begin = 0, end = 0; begin < encoding.size(); begin = end) {
    end = begin + 1;
    const auto word = encoding.words[begin];
    if (!word) continue;
    while (end < encoding.size() && encoding.words[end] == word) ++end;
    words.push_back(label_of(shares.subspan(begin * width, (end - begin) * width), width, rule));
    words.back().begin = encoding.offsets[begin].begin;
    words.back().end = encoding.offsets[end - 1].end;
  }
  return words;
}

std::vector<Entity> entities_of(std::span<const LabeledWord> words, const Labels& labels,
                                std::string_view text) {
  std::vector<Entity> entities;
  std::size_t count = 0;  // words of the last
  bool open = false;
  for (const LabeledWord& word : words) {
    const std::optional<Tag> tag = tag_of(labels.names[word.label]);
    const bool goes_on = tag && open && !tag->begins && entities.back().type == tag->type;
    open = tag.has_value();
    if (!tag) continue;
    if (!goes_on) {
      entities.push_back({std::string(tag->type), word.begin, word.end, word.score, ""});
      count = 1;
      continue;
    }
    Entity& entity = entities.back();
    entity.end = word.end;
    entity.score += (word.score - entity.score) / static_cast<float>(++count);
  }
  for (Entity& entity : entities) entity.text = cut(text, entity.begin, entity.end);
  return entities;
}

}  // namespace sluice::models
