// What a tokenizer file adds around a text, or two: special tokens, type ids, trimmed offsets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/process/encoding.h"

namespace sluice::text {

struct SpecialToken {
  std::string token;
  std::uint32_t id = 0;
};

// Immutable; any number of threads may use it.
class Processor {
 public:
  virtual ~Processor() = default;
  // Tokens that it adds to one text, or to two.
  virtual std::size_t added(bool is_pair) const noexcept = 0;
  // One or two texts in; they and what stands between them out.
  virtual void apply(std::vector<Encoding>& texts, bool add_special) const = 0;
  // What it puts before and behind a single text; false where that is not all it does to ids.
  virtual bool frame(std::vector<std::uint32_t>& before,
                     std::vector<std::uint32_t>& behind) const = 0;
};

using ProcessorPtr = std::shared_ptr<const Processor>;

struct TemplatePiece {
  bool is_text = true;
  std::size_t text = 0;  // 0 or 1
  std::vector<SpecialToken> special;
  std::uint32_t type_id = 0;
};
using Template = std::vector<TemplatePiece>;

ProcessorPtr make_template(Template single, Template pair);
ProcessorPtr make_bert_processor(SpecialToken cls, SpecialToken sep);

struct OffsetTrim {
  bool trims = true, add_prefix_space = true;
};
ProcessorPtr make_roberta_processor(SpecialToken cls, SpecialToken sep, OffsetTrim trim);
ProcessorPtr make_byte_level_processor(OffsetTrim trim);
ProcessorPtr make_processor_sequence(std::vector<ProcessorPtr> parts);

// Truncates, runs `processor` (or none) and merges.
Encoding process(const Processor* processor, std::vector<Encoding> texts, bool add_special,
                 const std::optional<Truncation>& truncation);

}  // namespace sluice::text
