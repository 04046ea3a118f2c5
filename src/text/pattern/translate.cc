// Regular expressions of Oniguruma in RE2's syntax.
#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/error.h"
#include "text/pattern/pattern.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

constexpr std::size_t kMaxExpressionBytes = 4096;

struct Class {
  std::string_view name;
  std::uint32_t flag;
};
constexpr Class kClasses[] = {
    {"s", kSpace},     {"d", kDigit},      {"w", kWordOnig},          {"p{L}", kLetter},
    {"p{N}", kNumber}, {"p{M}", kAnyMark}, {"p{P}", kAnyPunctuation}, {"p{Lu}", kUpper},
    {"p{Ll}", kLower}, {"p{Lt}", kTitle},  {"p{Lm}", kModifier},      {"p{Lo}", kOtherLetter}};

// The code points of a class, or all others, as the inside of brackets.
std::string ranges_of(std::uint32_t flag, bool others) {
  std::string ranges;
  std::optional<char32_t> first;
  for (char32_t c = 0; c <= 0x110000; ++c) {
    const bool within = c < 0x110000 && is(c, flag) != others;
    if (within && !first) first = c;
    if (within || !first) continue;
    ranges += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<std::uint32_t>(*first),
                          static_cast<std::uint32_t>(c - 1));
    first.reset();
  }
  return ranges;
}

class Translator {
 public:
  explicit Translator(std::string_view source) : rest_(source) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_.front() == '\\')
        escape();
      else
        sign();
    }
    return std::move(out_);
  }

 private:
  void sign() {
    require(!rest_.starts_with("[:") && !rest_.starts_with("&&"),
            "sets of names and intersections are not");
    require(!rest_.starts_with("(?=") && !rest_.starts_with("(?!") && !rest_.starts_with("(?<"),
            "it looks ahead or behind");
    if (brackets_ == 0)
      for (const char repeat : {'+', '*', '?', '}'})
        require(rest_.front() != repeat || !rest_.substr(1).starts_with('+'),
                "it has a possessive repeat");
    require(rest_.front() != '[' || brackets_ == 0, "it has a set within a set");
    if (rest_.front() == '[') ++brackets_;
    if (rest_.front() == ']' && brackets_ > 0) --brackets_;
    out_ += rest_.front();
    rest_.remove_prefix(1);
  }

  void escape() {
    rest_.remove_prefix(1);
    require(!rest_.empty(), "it ends in a backslash");
    for (const auto& one : kClasses) {
      if (take(one.name)) return add(ranges(one.flag, false));
      std::string negated(one.name);
      negated[0] = static_cast<char>(negated[0] - 'a' + 'A');
      if (take(negated)) return add(ranges(one.flag, true));
    }
    if (rest_.front() == 'u' && rest_.size() >= 5) {
      out_ += fmt::format("\\x{{{}}}", rest_.substr(1, 4));
      rest_.remove_prefix(5);
      return;
    }
    constexpr std::string_view kKnown = "nrtfvpPx";
    const char c = rest_.front();
    require(kKnown.find(c) != kKnown.npos || !isalnum(static_cast<unsigned char>(c)),
            fmt::format("\\{} is not", c));
    out_ += '\\';
    out_ += c;
    rest_.remove_prefix(1);
    if (c == 'p' || c == 'P' || c == 'x') copy_braces();
  }

  void copy_braces() {
    if (!rest_.starts_with('{')) return;
    const auto end = rest_.find('}');
    require(end != rest_.npos, "a brace is not closed");
    out_ += rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
  }

  bool take(std::string_view start) {
    if (!rest_.starts_with(start)) return false;
    rest_.remove_prefix(start.size());
    return true;
  }

  const std::string& ranges(std::uint32_t flag, bool others) {
    std::string& known = ranges_[{flag, others}];
    if (known.empty()) known = ranges_of(flag, others);
    return known;
  }

  void add(const std::string& inside) { out_ += brackets_ > 0 ? inside : '[' + inside + ']'; }

  std::string_view rest_;
  std::string out_;
  int brackets_ = 0;
  std::map<std::pair<std::uint32_t, bool>, std::string> ranges_;
};

}  // namespace

std::string translated_to_re2(std::string_view expression) {
  require(expression.size() <= kMaxExpressionBytes, "it is too long");
  return Translator(expression).run();
}

}  // namespace sluice::text
