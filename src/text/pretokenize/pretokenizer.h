// The pre-tokenizers of a tokenizer file. Each is immutable; any number of threads may use it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/pretokenize/split.h"

namespace sluice::text {

class PreTokenizer {
 public:
  // How much of the text decides where a word ends, for the caches of the tokenizer.
  enum class Kind { bert, byte_level, other };

  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  virtual Kind kind() const noexcept { return Kind::other; }
  // Whether it asks where in the original a part begins.
  virtual bool needs_spans() const noexcept { return false; }
};

using PreTokenizerPtr = std::shared_ptr<const PreTokenizer>;

struct ByteLevelOptions {
  bool add_prefix_space = true, use_regex = true;
};

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ByteLevelOptions& options) : options_(options) {}
  void apply(Pieces& pieces) const override;
  Kind kind() const noexcept override {
    return options_.use_regex ? Kind::byte_level : Kind::other;
  }
  const ByteLevelOptions& options() const noexcept { return options_; }

 private:
  ByteLevelOptions options_;
};

enum class PrependScheme { first, never, always };

PreTokenizerPtr make_bert_words();
PreTokenizerPtr make_whitespace();        // \w+|[^\w\s]+
PreTokenizerPtr make_whitespace_split();  // at white space only
PreTokenizerPtr make_metaspace(char32_t replacement, PrependScheme prepend, bool split);
PreTokenizerPtr make_punctuation(Behavior behavior);
PreTokenizerPtr make_digits(bool individual);
PreTokenizerPtr make_split(Pattern pattern, Behavior behavior, bool inverted);
PreTokenizerPtr make_delimiter(char32_t delimiter);
PreTokenizerPtr make_word_sequence(std::vector<PreTokenizerPtr> parts);

}  // namespace sluice::text
