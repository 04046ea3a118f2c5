#include "text/pattern/pattern.h"

#include <re2/re2.h>

#include "base/error.h"
#include "base/printable.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSpacesBeforeText = R"(|\s+(?!\S)|\s+)";
constexpr std::string_view kSpaces = R"(|(\s+))";

// Where `\s+(?!\S)|\s+` ends in a run of white space: before its last character when text follows.
std::size_t end_of_spaces(std::string_view text, std::size_t begin, std::size_t end) {
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while (last > begin && is_tail_byte(text[last])) --last;
  return last > begin ? last : end;
}

void find_literal(std::string_view literal, std::string_view text, std::vector<Match>& matches) {
  for (auto at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
    matches.push_back(
        {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + literal.size())});
}

void find_gpt2(std::string_view text, std::vector<Match>& matches) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_word_end(text, at);
    matches.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
    at = end;
  }
}

}  // namespace

struct Pattern::Compiled {
  Compiled(const std::string& expression, const RE2::Options& options, bool spaces)
      : re2(expression, options), ends_in_spaces(spaces) {}

  RE2 re2;
  bool ends_in_spaces;  // its first group is the white space of the lookahead
};

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.literal_ = text;
  require(!text.empty(), "a pattern is empty");
  return pattern;
}

Pattern Pattern::regex(std::string_view expression) {
  Pattern pattern;
  pattern.is_gpt2_ = expression == kGpt2;
  if (pattern.is_gpt2_) return pattern;
  std::string source(expression);
  const bool spaces = expression.ends_with(kSpacesBeforeText);
  if (spaces)
    source.replace(source.size() - kSpacesBeforeText.size(), kSpacesBeforeText.size(), kSpaces);
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(64 << 20);
  std::string why;
  try {
    pattern.regex_ =
        std::make_shared<Compiled>("(?m)" + translated_to_re2(source), options, spaces);
    why = pattern.regex_->re2.error();
  } catch (const Error& e) {
    why = e.reason();
  }
  const bool groups =
      pattern.regex_ && spaces && pattern.regex_->re2.NumberOfCapturingGroups() != 1;
  if (groups) why = "it has groups beside the lookahead";
  if (why.empty()) return pattern;
  throw Error(Code::invalid_argument,
              "the regular expression " + in_quotes(expression) + " is not supported: " + why);
}

void Pattern::find(std::string_view text, std::vector<Match>& matches) const {
  if (!literal_.empty()) return find_literal(literal_, text, matches);
  if (is_gpt2_) return find_gpt2(text, matches);
  const re2::StringPiece all(text.data(), text.size());
  re2::StringPiece found[2];
  std::size_t last_end = text.size() + 1;
  for (std::size_t at = 0; at <= text.size();) {
    if (!regex_->re2.Match(all, at, all.size(), RE2::UNANCHORED, found, 2)) return;
    const auto begin = static_cast<std::size_t>(found[0].data() - all.data());
    std::size_t end = begin + found[0].size();
    if (regex_->ends_in_spaces && found[1].data() != nullptr) end = end_of_spaces(text, begin, end);
    if (begin == end && end == last_end) {  // an empty match right behind another is none
      at = end < text.size() ? end + utf8_length(text[end]) : end + 1;
      continue;
    }
    matches.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    at = last_end = end;
  }
}

}  // namespace sluice::text
