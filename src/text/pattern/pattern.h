// What a regular expression of a tokenizer file matches. The reference runs Oniguruma; this runs
// RE2 on a translation whose character classes are those of the reference, so that time is linear.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

struct Match {
  std::uint32_t begin = 0, end = 0;
};

// Immutable; any number of threads may use it.
class Pattern {
 public:
  static Pattern literal(std::string_view text);

  // Throws invalid_argument with the expression when it needs what RE2 lacks. One kind of
  // lookahead works: `X|\s+(?!\S)|\s+`, with which known tokenizers split white space.
  static Pattern regex(std::string_view expression);

  // Appends all matches, leftmost first, in ascending order.
  void find(std::string_view text, std::vector<Match>& matches) const;

 private:
  struct Compiled;
  std::string literal_;
  bool is_gpt2_ = false;  // has a matcher of its own
  std::shared_ptr<const Compiled> regex_;
};

// The expression in RE2's syntax, with classes as ranges of code points.
std::string translated_to_re2(std::string_view expression);

// The end of the word of GPT-2's expression that begins at `at`; a word ends before `text` does.
std::size_t gpt2_word_end(std::string_view text, std::size_t at) noexcept;

}  // namespace sluice::text
