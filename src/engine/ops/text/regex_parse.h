// Patterns made into the steps of a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/ops/text/regex.h"

namespace sluice::engine {

inline constexpr std::uint32_t kLastLetter = 0x10FFFF;  // of Unicode

class RegexParser {
 public:
  RegexParser(std::string_view pattern, std::vector<Regex::Step>& steps);

  // The first step.
  std::size_t run();

 private:
  // A piece of the machine: `last` is a step of kind empty that still leads nowhere.
  struct Piece {
    std::size_t first, last;
  };
  struct Flags {
    bool any_case = false, lines = false, dot_all = false;
  };
  using Ranges = std::vector<Regex::Range>;

  static Ranges inverted(Ranges ranges);

  [[noreturn]] void wrong(const std::string& why) const;
  bool at_end() const { return at_ >= pattern_.size(); }
  std::uint32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : 0;
  }
  bool take(std::uint32_t letter);
  bool take(std::string_view text);

  std::size_t add(Regex::Step step);
  Piece one(Regex::Step step);
  Piece letters(Ranges ranges, bool negated = false);
  Piece assertion(Regex::Assertion what);
  Piece copy(const Piece& piece, std::size_t begin, std::size_t end);
  Piece chained(const Piece& a, const Piece& b);
  Piece optional(const Piece& piece);
  Piece starred(const Piece& piece);

  Piece alternatives();
  Piece sequence();
  Piece repeated();
  std::optional<std::pair<int, int>> counted();
  Piece times(const Piece& piece, std::size_t begin, std::size_t end, int least, int most);
  Piece atom();
  Piece group();
  Piece escaped();
  Piece bracket();
  bool set_flags();
  int number();
  std::uint32_t hexadecimal();
  std::uint32_t escaped_letter();
  std::optional<Ranges> shorthand(std::uint32_t letter) const;
  std::optional<Ranges> posix_class();

  std::vector<std::uint32_t> pattern_;
  std::vector<Regex::Step>& steps_;
  std::size_t at_ = 0, ranges_ = 0;  // of all steps
  Flags flags_;
  int depth_ = 0;
};

}  // namespace sluice::engine
