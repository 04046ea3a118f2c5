#include "engine/ops/text/regex_parse.h"

#include <algorithm>

#include "base/error.h"
#include "engine/ops/text/unicode.h"

namespace sluice::engine {
namespace {

using Step = Regex::Step;
using Kind = Step::Kind;
using Range = Regex::Range;

constexpr std::size_t kMostSteps = 100'000, kMostRanges = 1'000'000;
constexpr int kDeepest = 500, kMostTimes = 1000;

// Adds the other case of letters; ranges that go through much of Unicode hold both anyway.
// False where that is too much to look at.
bool add_cases(std::vector<Range>& ranges) {
  const std::vector<Range> given = ranges;
  std::size_t looked_at = 0;
  for (const Range& range : given) {
    if (range.last - range.first > 0x3000) continue;
    looked_at += range.last - range.first + 1;
    if (looked_at > kMostRanges) return false;
    for (std::uint32_t letter = range.first; letter <= range.last; ++letter)
      for (const std::uint32_t other : {to_lower(letter), to_upper(letter)})
        if (other != letter) ranges.push_back({other, other});
  }
  return true;
}

bool is_letter_or_digit(std::uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What stands between \Q and \E, which is meant as it stands, each letter escaped.
std::vector<std::uint32_t> unquoted(const std::vector<std::uint32_t>& pattern) {
  std::vector<std::uint32_t> out;
  bool quoted = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::uint32_t next = i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (pattern[i] == '\\' && next == (quoted ? 'E' : 'Q')) {
      quoted = !quoted;
      ++i;
    } else if (quoted) {
      if (!is_letter_or_digit(pattern[i])) out.push_back('\\');
      out.push_back(pattern[i]);
    } else {
      out.push_back(pattern[i]);
      if (pattern[i] == '\\' && next != 0) out.push_back(pattern[++i]);  // an escape stays whole
    }
  }
  return out;
}

}  // namespace

RegexParser::RegexParser(std::string_view pattern, std::vector<Step>& steps)
    : pattern_(unquoted(code_points(pattern))), steps_(steps) {}

void RegexParser::wrong(const std::string& why) const {
  throw Error(Code::invalid_argument,
              "a regular expression with " + why + " at letter " + std::to_string(at_));
}

std::size_t RegexParser::run() {
  const Piece all = alternatives();
  if (!at_end()) wrong("a ')' too many");
  const std::size_t end = add({.kind = Kind::matched});
  steps_[all.last].next = end;
  return all.first;
}

bool RegexParser::take(std::uint32_t letter) {
  if (at_end() || peek() != letter) return false;
  ++at_;
  return true;
}

bool RegexParser::take(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (peek(i) != static_cast<unsigned char>(text[i])) return false;
  at_ += text.size();
  return true;
}

std::size_t RegexParser::add(Step step) {
  ranges_ += step.letters.size();
  if (steps_.size() >= kMostSteps) wrong("too many steps");
  if (ranges_ > kMostRanges) wrong("too many ranges of letters");
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

RegexParser::Piece RegexParser::one(Step step) {
  const std::size_t first = add(std::move(step));
  const std::size_t last = add({});
  steps_[first].next = last;
  return {first, last};
}

RegexParser::Piece RegexParser::letters(Ranges ranges, bool negated) {
  if (flags_.any_case && !add_cases(ranges)) wrong("too many letters in any case");
  if (negated) ranges = inverted(std::move(ranges));
  return one({.kind = Kind::letter, .letters = std::move(ranges)});
}

RegexParser::Piece RegexParser::assertion(Regex::Assertion what) {
  return one({.kind = Kind::assertion, .assertion = what});
}

// The steps [begin, end) of a piece once more.
RegexParser::Piece RegexParser::copy(const Piece& piece, std::size_t begin, std::size_t end) {
  const std::size_t shift = steps_.size() - begin;
  for (std::size_t i = begin; i < end; ++i) {
    Step step = steps_[i];
    step.next += shift;
    step.other += shift;
    add(std::move(step));
  }
  return {piece.first + shift, piece.last + shift};
}

RegexParser::Piece RegexParser::chained(const Piece& a, const Piece& b) {
  steps_[a.last].next = b.first;
  return {a.first, b.last};
}

RegexParser::Piece RegexParser::optional(const Piece& piece) {
  const std::size_t end = add({});
  steps_[piece.last].next = end;
  return {add({.kind = Kind::split, .next = piece.first, .other = end}), end};
}

RegexParser::Piece RegexParser::starred(const Piece& piece) {
  const std::size_t end = add({});
  const std::size_t again = add({.kind = Kind::split, .next = piece.first, .other = end});
  steps_[piece.last].next = again;
  return {again, end};
}

RegexParser::Piece RegexParser::alternatives() {
  if (++depth_ > kDeepest) wrong("groups too deep");
  Piece all = sequence();
  while (take('|')) {
    const Piece other = sequence();
    const std::size_t end = add({});
    steps_[all.last].next = end;
    steps_[other.last].next = end;
    all = {add({.kind = Kind::split, .next = all.first, .other = other.first}), end};
  }
  --depth_;
  return all;
}

RegexParser::Piece RegexParser::sequence() {
  const std::size_t empty = add({});
  Piece all{empty, empty};
  while (!at_end() && peek() != '|' && peek() != ')') all = chained(all, repeated());
  return all;
}

RegexParser::Piece RegexParser::repeated() {
  const std::size_t begin = steps_.size();
  Piece piece = atom();
  for (bool more = true; more;) {
    const std::size_t end = steps_.size();
    if (take('*')) {
      piece = starred(piece);
    } else if (take('+')) {
      piece = times(piece, begin, end, 1, -1);
    } else if (take('?')) {
      piece = optional(piece);
    } else if (const auto count = counted()) {
      piece = times(piece, begin, end, count->first, count->second);
    } else {
      more = false;
    }
    if (more) take('?');  // lazy or not: a whole match is a match
  }
  return piece;
}

// {2}, {2,}, {2,5}; what else begins with a brace is a letter.
std::optional<std::pair<int, int>> RegexParser::counted() {
  const std::size_t begin = at_;
  if (!take('{') || peek() < '0' || peek() > '9') return at_ = begin, std::nullopt;
  const int least = number();
  int most = least;
  if (take(',')) most = peek() >= '0' && peek() <= '9' ? number() : -1;
  if (!take('}')) return at_ = begin, std::nullopt;
  if (most >= 0 && most < least) wrong("a repetition from more to fewer");
  return std::pair(least, most);
}

int RegexParser::number() {
  int value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    value = value * 10 + static_cast<int>(peek() - '0');
    if (value > kMostTimes) wrong("more than 1000 repetitions");
  }
  return value;
}

// `most` of -1: without end.
RegexParser::Piece RegexParser::times(const Piece& piece, std::size_t begin, std::size_t end,
                                      int least, int most) {
  const int copies = most < 0 ? std::max(least, 1) : most;
  if (copies == 0) {
    const std::size_t empty = add({});
    return {empty, empty};
  }
  std::vector<Piece> list;
  for (int i = 1; i < copies; ++i) list.push_back(copy(piece, begin, end));
  list.push_back(piece);
  if (most < 0) {
    const Piece last = least == 0 ? starred(list.back()) : list.back();
    if (least > 0) {  // the last one again and again
      const std::size_t out = add({});
      const std::size_t again = add({.kind = Kind::split, .next = last.first, .other = out});
      steps_[last.last].next = again;
      list.back() = {last.first, out};
    } else {
      list.back() = last;
    }
  }
  for (int i = least; most >= 0 && i < copies; ++i)
    list[static_cast<std::size_t>(i)] = optional(list[static_cast<std::size_t>(i)]);
  Piece all = list[0];
  for (std::size_t i = 1; i < list.size(); ++i) all = chained(all, list[i]);
  return all;
}

RegexParser::Piece RegexParser::atom() {
  if (take('(')) return group();
  if (take('[')) return bracket();
  if (take('\\')) return escaped();
  if (take('.'))
    return flags_.dot_all ? letters({{0, kLastLetter}}) : letters({{'\n', '\n'}}, true);
  if (take('^'))
    return assertion(flags_.lines ? Regex::Assertion::line_begin : Regex::Assertion::text_begin);
  if (take('$'))
    return assertion(flags_.lines ? Regex::Assertion::line_end : Regex::Assertion::text_end);
  if (peek() == '*' || peek() == '+' || peek() == '?') wrong("a repetition of nothing");
  const std::uint32_t letter = peek();
  ++at_;
  return letters({{letter, letter}});
}

RegexParser::Piece RegexParser::group() {
  const Flags around = flags_;
  if (take("?P<") || (peek() == '?' && peek(1) == '<' && take("?<"))) {
    while (!at_end() && peek() != '>') ++at_;
    if (!take('>')) wrong("a group whose name does not end");
  } else if (take('?') && !set_flags()) {  // (?i): for the rest of what is around
    const std::size_t empty = add({});
    return {empty, empty};
  }
  const Piece inner = alternatives();
  if (!take(')')) wrong("a group that does not end");
  flags_ = around;
  return inner;
}

// After "(?": up to ':' (true: a group follows) or ')' (false).
bool RegexParser::set_flags() {
  for (bool on = true; !at_end(); ++at_) {
    const std::uint32_t flag = peek();
    if (flag == ':' || flag == ')') return ++at_, flag == ':';
    if (flag == '-')
      on = false;
    else if (flag == 'i')
      flags_.any_case = on;
    else if (flag == 'm')
      flags_.lines = on;
    else if (flag == 's')
      flags_.dot_all = on;
    else if (flag != 'U')
      wrong("a group of an unknown kind");
  }
  wrong("a group that does not end");
}

RegexParser::Piece RegexParser::escaped() {
  if (at_end()) wrong("a '\\' at its end");
  if (const auto known = shorthand(peek())) {
    ++at_;
    return letters(*known);
  }
  if (take('b')) return assertion(Regex::Assertion::word_edge);
  if (take('B')) return assertion(Regex::Assertion::no_word_edge);
  if (take('A')) return assertion(Regex::Assertion::text_begin);
  if (take('z')) return assertion(Regex::Assertion::text_end);
  if (take('C')) return letters({{0, kLastLetter}});
  const std::uint32_t letter = escaped_letter();
  return letters({{letter, letter}});
}

std::uint32_t RegexParser::escaped_letter() {
  const std::uint32_t letter = peek();
  if (letter == 'p' || letter == 'P')
    throw Error(Code::unavailable, "classes of Unicode in regular expressions");
  ++at_;
  switch (letter) {
    case 'a': return 7;
    case 'f': return '\f';
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'v': return '\v';
    case '0': return 0;
    case 'x': return hexadecimal();
    default: break;
  }
  if (letter == 0 || is_letter_or_digit(letter)) wrong("an unknown escape");
  return letter;
}

// \x7F or \x{10FFFF}
std::uint32_t RegexParser::hexadecimal() {
  const bool braces = take('{');
  std::uint32_t value = 0;
  for (int i = 0; braces ? peek() != '}' : i < 2; ++i, ++at_) {
    const std::uint32_t c = peek() | 0x20;
    const bool digit = peek() >= '0' && peek() <= '9';
    if (!digit && (c < 'a' || c > 'f')) wrong("a number that is not hexadecimal");
    value = value * 16 + (digit ? peek() - '0' : c - 'a' + 10);
    if (value > kLastLetter) wrong("a letter beyond U+10FFFF");
  }
  if (braces) ++at_;
  return value;
}

}  // namespace sluice::engine
