#include "models/tagger.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "models/entities.h"
#include "text/unicode/utf8.h"

namespace sluice::models {
namespace {

// Probabilities of the labels of each token.
std::vector<float> softmax_rows(std::span<const float> logits, std::size_t width) {
  std::vector<float> shares(logits.begin(), logits.end());
  for (std::size_t at = 0; at < shares.size(); at += width) {
    const auto row = std::span(shares).subspan(at, width);
    const float largest = *std::ranges::max_element(row);
    float sum = 0;
    for (float& x : row) sum += x = std::exp(x - largest);
    for (float& x : row) x /= sum;
  }
  return shares;
}

}  // namespace

Tagger::Tagger(const std::filesystem::path& folder, compute::Workers& workers,
               std::optional<std::int64_t> max_length, const Placement& placement)
    : model_(folder, workers,
             {.output = "logits", .max_length = max_length, .placement = placement}),
      labels_(read_labels(folder, model_.width())) {
  if (model_.per_text())
    throw Error(Code::unavailable, folder.string() + ": its logits are of texts: sluice classify");
}

Tagged Tagger::tag(std::span<const Text> texts, WordLabel rule) const {
  TextModel::Result result = model_.run(texts);
  const std::size_t width = model_.width();
  Tagged tagged;
  tagged.entities.resize(texts.size());
  auto error = result.errors.begin();
  std::string room;  // offsets count what is ill-formed as U+FFFD
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (error != result.errors.end() && error->text == i) {
      ++error;
      continue;
    }
    const auto begin = static_cast<std::size_t>(result.cu_seqlens[i]) * width;
    const auto end = static_cast<std::size_t>(result.cu_seqlens[i + 1]) * width;
    const std::vector<float> shares =
        softmax_rows(std::span(result.rows).subspan(begin, end - begin), width);
    tagged.entities[i] = entities_of(words_of(result.encodings[i], shares, labels_, rule), labels_,
                                     text::well_formed(texts[i].text, room));
  }
  tagged.errors = std::move(result.errors);
  tagged.truncated = std::move(result.truncated);
  return tagged;
}

}  // namespace sluice::models
