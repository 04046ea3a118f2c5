#include "models/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "engine/io/hf_import.h"
#include "models/config/config_files.h"

namespace sluice::models {
namespace {

constexpr std::int64_t kDefaultLength = 512;

}  // namespace

bool is_blank(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

void require_tokenizer(const text::Tokenizer& tokenizer, const engine::Encoder& encoder,
                       const std::filesystem::path& folder) {
  const auto known = static_cast<std::size_t>(encoder.graph().vocabulary());
  require(tokenizer.vocabulary_size() <= known,
          fmt::format("{}: the tokenizer does not belong to the model: it has {} tokens, and the "
                      "model knows {}",
                      folder.string(), tokenizer.vocabulary_size(), known));
}

std::int64_t length_for(const std::filesystem::path& folder, std::optional<std::int64_t> length) {
  const std::optional<std::int64_t> positions = positions_in(folder);
  const std::int64_t wanted = length.value_or(positions.value_or(kDefaultLength));
  require(!positions || wanted <= *positions,
          fmt::format("{}: the model has positions for {} tokens, not {}", folder.string(),
                      positions.value_or(0), wanted));
  return wanted;
}

namespace {

engine::Graph graph_with(const std::string& output, const std::filesystem::path& folder) {
  engine::Graph graph = engine::import_model(folder);
  const bool has = std::ranges::any_of(
      graph.outputs, [&](engine::ValueId id) { return graph[id].name == output; });
  require(has, fmt::format("{} is an encoder without a head (an output {}): sluice embed takes it",
                           folder.string(), output));
  return graph;
}

}  // namespace

TextModel::TextModel(const std::filesystem::path& folder, compute::Workers& workers,
                     const Options& options)
    : workers_(workers),
      device_(options.placement.device),
      encoder_(encoder_at(
          options.placement, graph_with(options.output, folder), workers,
          {.max_length = length_for(folder, options.max_length), .output = options.output})),
      tokenizer_(text::Tokenizer::open(folder)),
      empty_(tokenizer_.encode("").size()),
      empty_pair_(tokenizer_.encode_pair("", "").size()) {
  require_tokenizer(tokenizer_, encoder_, folder);
}

// Of a pair, the longer text is cut first. Only texts that are too long are encoded twice: what is
// cut off would come in parts, of a pair in the product of both texts' parts.
text::Encoding TextModel::encode(const Text& text, bool& truncated) const {
  const auto encode_once = [&](const text::EncodeOptions& options) {
    return text.pair ? tokenizer_.encode_pair(text.text, *text.pair, options)
                     : tokenizer_.encode(text.text, options);
  };
  require(!is_blank(text.text), "the text is empty");
  require(!text.pair || !is_blank(*text.pair), "the second text is empty");
  text::Encoding whole = encode_once({});
  require(whole.size() > (text.pair ? empty_pair_ : empty_), "the text has no words");
  const auto longest = static_cast<std::size_t>(max_length());
  truncated = whole.size() > longest;
  if (!truncated) return whole;
  return encode_once(
      {.truncation = text::Truncation{.max_length = longest, .keeps_overflow = false}});
}

TextModel::Result TextModel::run(std::span<const Text> texts) const {
  Result result;
  result.encodings.resize(texts.size());
  std::vector<std::string> faults(texts.size());
  std::vector<char> truncated(texts.size());
  workers_.each(texts.size(), 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) try {
        bool cut = false;
        result.encodings[i] = encode(texts[i], cut);
        truncated[i] = cut;
      } catch (const Error& error) {
        if (error.code() != Code::invalid_argument) throw;
        faults[i] = error.reason();
      }
  });
  std::vector<std::int32_t> ids, type_ids;
  result.cu_seqlens.push_back(0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const text::Encoding& encoding = result.encodings[i];
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    if (encoder_.graph().takes_types())
      type_ids.insert(type_ids.end(), encoding.type_ids.begin(), encoding.type_ids.end());
    require(ids.size() <= std::numeric_limits<std::int32_t>::max(),
            "more than 2^31 tokens in one call");
    result.cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
    if (truncated[i] != 0) result.truncated.push_back(i);
  }
  result.rows.resize((per_text() ? texts.size() : ids.size()) * width());
  for (const engine::SequenceError& error : encoder_.run(
           {.ids = ids, .type_ids = type_ids, .cu_seqlens = result.cu_seqlens}, result.rows)) {
    const std::string& fault = faults[error.sequence];
    result.errors.push_back({error.sequence, fault.empty() ? error.reason : fault});
  }
  return result;
}

}  // namespace sluice::models
