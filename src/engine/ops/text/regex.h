// Regular expressions in the syntax of RE2, matched against whole texts in time that grows
// only with pattern times text, however the pattern is made.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::engine {

class Regex {
 public:
  // Throws invalid_argument where the pattern is wrong or grows too large, unavailable where
  // it uses classes of Unicode (\p{...}).
  explicit Regex(std::string_view pattern);

  bool matches_all(std::string_view text) const;

  struct Range {
    std::uint32_t first, last;
  };
  enum class Assertion { text_begin, text_end, line_begin, line_end, word_edge, no_word_edge };
  // One instruction. `split` goes on at both, the others at `next`.
  struct Step {
    enum class Kind { letter, split, assertion, empty, matched } kind = Kind::empty;
    std::size_t next = 0, other = 0;
    std::vector<Range> letters{};
    Assertion assertion = Assertion::text_begin;
  };

 private:
  class Threads;

  std::vector<Step> steps_;
  std::size_t start_ = 0;
};

}  // namespace sluice::engine
