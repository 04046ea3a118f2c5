#include <utility>

#include "text/normalize/normalizer.h"
#include "text/pretokenize/pretokenizer.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

template <class Apply>
class WordFunction final : public PreTokenizer {
 public:
  WordFunction(Kind of, bool spans, Apply function)
      : kind_(of), needs_spans_(spans), apply_(std::move(function)) {}
  void apply(Pieces& pieces) const override { apply_(pieces); }
  Kind kind() const noexcept override { return kind_; }
  bool needs_spans() const noexcept override { return needs_spans_; }

 private:
  Kind kind_;
  bool needs_spans_;
  Apply apply_;
};

template <class Apply>
PreTokenizerPtr make_words(Apply apply, PreTokenizer::Kind kind = PreTokenizer::Kind::other,
                           bool needs_spans = false) {
  return std::make_shared<WordFunction<Apply>>(kind, needs_spans, std::move(apply));
}

void split_bert_words(Pieces& pieces) {
  split_at_each(pieces, Behavior::removed, [](char32_t c) { return is(c, kWhitespace); });
  split_at_each(pieces, Behavior::isolated, [](char32_t c) { return is(c, kPunctuation); });
}

// \w+|[^\w\s]+
void find_words(std::string_view text, std::vector<Match>& matches) {
  int last = 0;  // 0: white space, 1: letters, 2: other signs
  for_each_code_point(text, [&](char32_t c, std::size_t begin, std::size_t end) {
    const int kind = is(c, kWord) ? 1 : is(c, kWhitespace) ? 0 : 2;
    if (kind != 0 && kind == last)
      matches.back().end = static_cast<std::uint32_t>(end);
    else if (kind != 0)
      matches.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    last = kind;
  });
}

void apply_metaspace(Pieces& pieces, char32_t replacement, PrependScheme prepend_scheme,
                     bool split) {
  std::string mark;
  append_utf8(mark, replacement);
  const Pattern space = Pattern::literal(" ");
  std::vector<Match> matches;
  rewrite_each(pieces, [&](Normalized& part) {
    const bool first = part.tracked && part.spans.front().begin == 0;
    matches.clear();
    space.find(part.text, matches);
    replace_all(part, matches, mark);
    const bool prepends = prepend_scheme == PrependScheme::always ||
                          (prepend_scheme == PrependScheme::first && first);
    if (prepends && !part.text.starts_with(mark)) prepend(part, mark);
  });
  if (split)
    split_at_each(pieces, Behavior::merged_with_next,
                  [replacement](char32_t c) { return c == replacement; });
}

}  // namespace

void ByteLevelPreTokenizer::apply(Pieces& pieces) const {
  if (options_.add_prefix_space)
    rewrite_each(pieces, [](Normalized& part) {
      if (!part.text.starts_with(' ')) prepend(part, " ");
    });
  if (options_.use_regex)
    split_each(
        pieces, Behavior::isolated, false, [](std::string_view text, std::vector<Match>& matches) {
          for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = gpt2_word_end(text, at);
            matches.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
            at = end;
          }
        });
  rewrite_each(pieces, to_byte_characters);
}

PreTokenizerPtr make_bert_words() { return make_words(split_bert_words, PreTokenizer::Kind::bert); }

PreTokenizerPtr make_whitespace() {
  return make_words(
      [](Pieces& pieces) { split_each(pieces, Behavior::removed, true, find_words); });
}

PreTokenizerPtr make_whitespace_split() {
  return make_words([](Pieces& pieces) {
    split_at_each(pieces, Behavior::removed, [](char32_t c) { return is(c, kWhitespace); });
  });
}

PreTokenizerPtr make_metaspace(char32_t replacement, PrependScheme scheme, bool split) {
  return make_words([=](Pieces& pieces) { apply_metaspace(pieces, replacement, scheme, split); },
                    PreTokenizer::Kind::other, scheme == PrependScheme::first);
}

PreTokenizerPtr make_punctuation(Behavior behavior) {
  return make_words([behavior](Pieces& pieces) {
    split_at_each(pieces, behavior, [](char32_t c) { return is(c, kPunctuation); });
  });
}

PreTokenizerPtr make_digits(bool individual) {
  const Behavior behavior = individual ? Behavior::isolated : Behavior::contiguous;
  return make_words([behavior](Pieces& pieces) {
    split_at_each(pieces, behavior, [](char32_t c) { return is(c, kNumeric); });
  });
}

PreTokenizerPtr make_split(Pattern pattern, Behavior behavior, bool inverted) {
  return make_words([=, pattern = std::move(pattern)](Pieces& pieces) {
    split_each(pieces, behavior, inverted, [&](std::string_view text, std::vector<Match>& matches) {
      pattern.find(text, matches);
    });
  });
}

PreTokenizerPtr make_delimiter(char32_t delimiter) {
  return make_words([delimiter](Pieces& pieces) {
    split_at_each(pieces, Behavior::removed, [delimiter](char32_t c) { return c == delimiter; });
  });
}

PreTokenizerPtr make_word_sequence(std::vector<PreTokenizerPtr> parts) {
  bool needs_spans = false;
  for (const auto& part : parts) needs_spans = needs_spans || part->needs_spans();
  return make_words(
      [parts = std::move(parts)](Pieces& pieces) {
        for (const auto& part : parts) part->apply(pieces);
      },
      PreTokenizer::Kind::other, needs_spans);
}

}  // namespace sluice::text
