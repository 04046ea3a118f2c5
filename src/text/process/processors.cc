#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/normalize/normalizer.h"
#include "text/process/processor.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

Encoding special_encoding(const std::vector<SpecialToken>& tokens, std::uint32_t type_id) {
  Encoding out;
  for (const auto& token : tokens) {
    out.ids.push_back(token.id);
    out.tokens.push_back(token.token);
  }
  out.type_ids.assign(tokens.size(), type_id);
  out.offsets.resize(tokens.size());
  out.words.resize(tokens.size());
  out.special.assign(tokens.size(), 1);
  return out;
}

class TemplateProcessor final : public Processor {
 public:
  TemplateProcessor(Template single, Template pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  std::size_t added(bool is_pair) const noexcept override {
    std::size_t count = 0;
    for (const auto& piece : is_pair ? pair_ : single_) count += piece.special.size();
    return count;
  }

  void apply(std::vector<Encoding>& texts, bool add_special) const override {
    require(texts.size() <= 2, "a template follows another in the post-processor");
    std::vector<Encoding> out;
    for (const auto& piece : texts.size() == 2 ? pair_ : single_) {
      if (!piece.is_text) {
        if (add_special) out.push_back(special_encoding(piece.special, piece.type_id));
        continue;
      }
      require(piece.text < texts.size(), "the template of one text names the second");
      auto& text = texts[piece.text];
      std::ranges::fill(text.type_ids, piece.type_id);
      out.push_back(text);
    }
    texts = std::move(out);
  }

  bool frame(std::vector<std::uint32_t>& before,
             std::vector<std::uint32_t>& behind) const override {
    int seen = 0;
    for (const auto& piece : single_) {
      seen += piece.is_text ? 1 : 0;
      for (const auto& token : piece.special) (seen == 0 ? before : behind).push_back(token.id);
    }
    return seen == 1;
  }

 private:
  Template single_, pair_;
};

bool is_blank(char32_t c) { return c == byte_character(' ') || is(c, kWhitespace); }

// Blanks at the ends of a token; a trimmed token without others has them all at both.
std::pair<std::uint32_t, std::uint32_t> blanks(std::string_view token) {
  std::uint32_t leading = 0, trailing = 0;
  bool only_blanks = true;
  for_each_code_point(token, [&](char32_t c, std::size_t, std::size_t) {
    const bool blank = is_blank(c);
    only_blanks = only_blanks && blank;
    leading += only_blanks ? 1 : 0;
    trailing = blank ? trailing + 1 : 0;
  });
  return {leading, trailing};
}

void trim_offsets(Encoding& encoding, bool add_prefix_space) {
  for (std::size_t i = 0; i < encoding.tokens.size(); ++i) {
    auto [leading, trailing] = blanks(encoding.tokens[i]);
    Span& span = encoding.offsets[i];
    const bool is_first = i == 0 || span.begin == 0;
    if (is_first && add_prefix_space && leading == 1) leading = 0;  // it was added
    if (leading > 0) span.begin = std::min(span.begin + leading, span.end);
    if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
  }
  for (Encoding& part : encoding.overflow) trim_offsets(part, add_prefix_space);
}

// Puts tokens before and behind a text and each part that overflows.
void surround(Encoding& text, const Encoding& before, const Encoding& behind) {
  for (Encoding& part : text.overflow) surround(part, before, behind);
  auto overflow = std::move(text.overflow);
  text.overflow.clear();
  Encoding out = before;
  const std::size_t no_overflow = 0;
  merge(out, text, no_overflow);
  merge(out, behind, no_overflow);
  out.overflow = std::move(overflow);
  text = std::move(out);
}

class BertProcessor final : public Processor {
 public:
  BertProcessor(SpecialToken cls, SpecialToken sep) : cls_(std::move(cls)), sep_(std::move(sep)) {}

  std::size_t added(bool is_pair) const noexcept override { return is_pair ? 3 : 2; }

  void apply(std::vector<Encoding>& texts, bool add_special) const override {
    if (!add_special) return;
    for (std::size_t i = 0; i < texts.size(); ++i)
      surround(texts[i], i == 0 ? special_encoding({cls_}, 0) : Encoding{},
               special_encoding({sep_}, i == 0 ? 0 : 1));
  }

  bool frame(std::vector<std::uint32_t>& before,
             std::vector<std::uint32_t>& behind) const override {
    before.push_back(cls_.id);
    behind.push_back(sep_.id);
    return true;
  }

 private:
  SpecialToken cls_, sep_;
};

class RobertaProcessor final : public Processor {
 public:
  RobertaProcessor(SpecialToken cls, SpecialToken sep, OffsetTrim trim)
      : cls_(std::move(cls)), sep_(std::move(sep)), trim_(trim) {}

  std::size_t added(bool is_pair) const noexcept override { return is_pair ? 4 : 2; }

  void apply(std::vector<Encoding>& texts, bool add_special) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (trim_.trims) trim_offsets(texts[i], trim_.add_prefix_space);
      std::ranges::fill(texts[i].type_ids, 0);
      if (!add_special) continue;
      for (Encoding& part : texts[i].overflow) std::ranges::fill(part.type_ids, 0);
      surround(texts[i], special_encoding({i == 0 ? cls_ : sep_}, 0), special_encoding({sep_}, 0));
    }
  }

  bool frame(std::vector<std::uint32_t>& before,
             std::vector<std::uint32_t>& behind) const override {
    before.push_back(cls_.id);
    behind.push_back(sep_.id);
    return true;
  }

 private:
  SpecialToken cls_, sep_;
  OffsetTrim trim_;
};

class ByteLevelProcessor final : public Processor {
 public:
  explicit ByteLevelProcessor(OffsetTrim trim) : trim_(trim) {}
  std::size_t added(bool) const noexcept override { return 0; }
  void apply(std::vector<Encoding>& texts, bool) const override {
    for (Encoding& text : texts)
      if (trim_.trims) trim_offsets(text, trim_.add_prefix_space);
  }
  bool frame(std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const override {
    return true;
  }

 private:
  OffsetTrim trim_;
};

class ProcessorSequence final : public Processor {
 public:
  explicit ProcessorSequence(std::vector<ProcessorPtr> parts) : parts_(std::move(parts)) {}

  std::size_t added(bool is_pair) const noexcept override {
    std::size_t count = 0;
    for (const auto& part : parts_) count += part->added(is_pair);
    return count;
  }
  void apply(std::vector<Encoding>& texts, bool add_special) const override {
    for (const auto& part : parts_) part->apply(texts, add_special);
  }
  bool frame(std::vector<std::uint32_t>& before,
             std::vector<std::uint32_t>& behind) const override {
    int adding = 0;
    for (const auto& part : parts_) {
      adding += part->added(false) > 0 ? 1 : 0;
      if (!part->frame(before, behind)) return false;
    }
    return adding <= 1;
  }

 private:
  std::vector<ProcessorPtr> parts_;
};

}  // namespace

ProcessorPtr make_template(Template single, Template pair) {
  return std::make_shared<TemplateProcessor>(std::move(single), std::move(pair));
}
ProcessorPtr make_bert_processor(SpecialToken cls, SpecialToken sep) {
  return std::make_shared<BertProcessor>(std::move(cls), std::move(sep));
}
ProcessorPtr make_roberta_processor(SpecialToken cls, SpecialToken sep, OffsetTrim trim) {
  return std::make_shared<RobertaProcessor>(std::move(cls), std::move(sep), trim);
}
ProcessorPtr make_byte_level_processor(OffsetTrim trim) {
  return std::make_shared<ByteLevelProcessor>(trim);
}
ProcessorPtr make_processor_sequence(std::vector<ProcessorPtr> parts) {
  return std::make_shared<ProcessorSequence>(std::move(parts));
}

Encoding process(const Processor* processor, std::vector<Encoding> texts, bool add_special,
                 const std::optional<Truncation>& truncation) {
  const bool is_pair = texts.size() == 2;
  const std::size_t added = processor != nullptr && add_special ? processor->added(is_pair) : 0;
  std::size_t tokens = 0;
  for (const Encoding& text : texts) tokens += text.size();
  const std::size_t most = most_overflow(tokens);
  if (truncation) {
    require(truncation->max_length >= added,
            fmt::format("a length of {} leaves no room for {} special tokens",
                        truncation->max_length, added));
    Truncation of_text = *truncation;
    of_text.max_length -= added;
    truncate(texts, of_text);
    for (const Encoding& text : texts) require_overflow(text, added, most);
  }
  for (std::size_t i = 0; i < texts.size() && processor != nullptr; ++i)
    std::ranges::fill(texts[i].type_ids, static_cast<std::uint32_t>(i));
  if (processor != nullptr) processor->apply(texts, add_special);
  Encoding out;
  for (const Encoding& text : texts) merge(out, text, most);
  return out;
}

}  // namespace sluice::text
