// Sets of letters in patterns: \d, [a-z], [[:alpha:]].
#include <algorithm>

#include "engine/ops/text/regex_parse.h"

namespace sluice::engine {
namespace {

using Range = Regex::Range;

std::vector<Range> digits() { return {{'0', '9'}}; }
std::vector<Range> spaces() { return {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}; }
std::vector<Range> words() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

}  // namespace

RegexParser::Ranges RegexParser::inverted(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  Ranges rest;
  std::uint32_t next = 0;
  for (const Range& range : ranges) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = std::max(next, range.last + 1);
  }
  if (next <= kLastLetter) rest.push_back({next, kLastLetter});
  return rest;
}

std::optional<RegexParser::Ranges> RegexParser::shorthand(std::uint32_t letter) const {
  switch (letter) {
    case 'd': return digits();
    case 's': return spaces();
    case 'w': return words();
    case 'D': return inverted(digits());
    case 'S': return inverted(spaces());
    case 'W': return inverted(words());
    default: return std::nullopt;
  }
}

// [:alpha:] and its like
std::optional<RegexParser::Ranges> RegexParser::posix_class() {
  const std::pair<std::string_view, Ranges> classes[] = {
      {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
      {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
      {"ascii", {{0, 127}}},
      {"blank", {{'\t', '\t'}, {' ', ' '}}},
      {"cntrl", {{0, 31}, {127, 127}}},
      {"digit", digits()},
      {"graph", {{'!', '~'}}},
      {"lower", {{'a', 'z'}}},
      {"print", {{' ', '~'}}},
      {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {"space", {{'\t', '\r'}, {' ', ' '}}},
      {"upper", {{'A', 'Z'}}},
      {"word", words()},
      {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
  };
  for (const auto& [name, ranges] : classes) {
    if (take("[:" + std::string(name) + ":]")) return ranges;
    if (take("[:^" + std::string(name) + ":]")) return inverted(ranges);
  }
  return std::nullopt;
}

RegexParser::Piece RegexParser::bracket() {
  const bool negated = take('^');
  Ranges ranges;
  const auto add_all = [&](const Ranges& more) {
    ranges.insert(ranges.end(), more.begin(), more.end());
  };
  for (bool first = true; first || peek() != ']'; first = false) {
    if (at_end()) wrong("a '[' that does not end");
    if (const auto named = posix_class()) {
      add_all(*named);
      continue;
    }
    if (peek() == '\\') {
      if (const auto known = shorthand(peek(1))) {
        at_ += 2;
        add_all(*known);
        continue;
      }
    }
    const auto letter = [&] {
      if (take('\\')) return escaped_letter();
      return pattern_[at_++];
    };
    const std::uint32_t low = letter();
    std::uint32_t high = low;
    if (peek() == '-' && at_ + 1 < pattern_.size() && peek(1) != ']') {
      ++at_;
      high = letter();
      if (high < low) wrong("a range from high to low");
    }
    ranges.push_back({low, high});
  }
  ++at_;
  return letters(std::move(ranges), negated);
}

}  // namespace sluice::engine
