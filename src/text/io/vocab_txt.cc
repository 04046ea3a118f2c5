#include <fmt/format.h>

#include "text/io/read.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

// Without the white space at its end, as the reference reads it.
std::string_view trimmed(std::string_view line) {
  while (!line.empty()) {
    std::size_t at = line.size() - 1;
    while (at > 0 && is_tail_byte(line[at])) --at;
    std::size_t behind = at;
    if (!is(next_code_point(line, behind), kWhitespace)) break;
    line = line.substr(0, at);
  }
  return line;
}

TemplatePiece special(const SpecialToken& token, std::uint32_t type_id) {
  return {.is_text = false, .special = {token}, .type_id = type_id};
}

TemplatePiece sequence(std::size_t text, std::uint32_t type_id) {
  return {.is_text = true, .text = text, .special = {}, .type_id = type_id};
}

}  // namespace

Pipeline parse_vocab_txt(std::string_view text, std::string_view name, const BertOptions& options) {
  std::string store;
  text = well_formed(text, store);
  Vocabulary vocabulary;
  for (std::uint32_t id = 0; !text.empty(); ++id) {
    const auto end = text.find('\n');
    vocabulary.add(trimmed(text.substr(0, end)), id);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  const auto token = [&](const char* content) {
    const auto id = vocabulary.find(content);
    require(id.has_value(), fmt::format("{}: has no token {}", name, content));
    return SpecialToken{content, *id};
  };
  const SpecialToken cls = token("[CLS]"), sep = token("[SEP]");
  token("[UNK]");
  Pipeline pipeline;
  pipeline.normalizer = std::make_shared<BertNormalizer>(options);
  pipeline.pre_tokenizer = make_bert_words();
  for (const char* content : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"})
    if (vocabulary.find(content))
      pipeline.added.add({.content = content, .normalized = false, .special = true}, vocabulary,
                         nullptr);
  pipeline.model = make_wordpiece(std::move(vocabulary), {});
  pipeline.processor = make_template(
      {special(cls, 0), sequence(0, 0), special(sep, 0)},
      {special(cls, 0), sequence(0, 0), special(sep, 0), sequence(1, 1), special(sep, 1)});
  pipeline.decoder = make_wordpiece_decoder("##", true);
  return pipeline;
}

}  // namespace sluice::text
