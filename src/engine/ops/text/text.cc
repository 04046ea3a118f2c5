// Strings: concatenation, splitting, normalization, matching.
#include <re2/re2.h>

#include <set>

#include "base/printable.h"
#include "base/utf8.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"
#include "engine/ops/text/unicode.h"

namespace sluice::engine {
namespace {

void string_concat(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require(b.dtype() == DType::string, "both inputs must be strings");
  const Tensor out = call.output(0, DType::string, broadcast(a.shape(), b.shape()));
  double bytes = 0;
  for (const Tensor& part : {a, b})
    if (part.size() > 0)
      bytes += static_cast<double>(out.size() / part.size()) *
               static_cast<double>(string_bytes(part.values<std::string>()) +
                                   static_cast<std::size_t>(part.size()) * 16);
  reserve_string_bytes(out, bytes);
  map2<std::string, std::string, std::string>(
      a, b, out, [](const std::string& x, const std::string& y) { return x + y; });
}

constexpr std::string_view kSpace = " \t\n\r\v\f";

// Splits at runs of white space, without an empty part before the first.
std::vector<std::string> split_at_space(std::string_view text, std::size_t max) {
  std::vector<std::string> parts;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return parts;
    const std::size_t end =
        parts.size() < max ? std::min(text.find_first_of(kSpace), text.size()) : text.size();
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string> split_at(std::string_view text, std::string_view delimiter,
                                  std::size_t max) {
  std::vector<std::string> parts;
  while (parts.size() < max) {
    const std::size_t end = text.find(delimiter);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + delimiter.size());
  }
  parts.emplace_back(text);
  return parts;
}

void string_split(OpCall& call) {
  const Tensor& data = call.input(0);
  const std::string delimiter = call.attributes().string("delimiter", "");
  const std::int64_t given = call.attributes().integer("maxsplit", -1);
  const std::size_t max =
      given < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(given);
  const Tensor counts = call.output(1, DType::i64, data.shape());
  std::vector<std::vector<std::string>> all;
  std::size_t width = 0;
  for (const std::string& text : data.values<std::string>()) {
    all.push_back(delimiter.empty() ? split_at_space(text, max) : split_at(text, delimiter, max));
    counts.values<std::int64_t>()[all.size() - 1] = static_cast<std::int64_t>(all.back().size());
    width = std::max(width, all.back().size());
  }
  Shape shape = data.shape();
  shape.push_back(static_cast<std::int64_t>(width));
  const Tensor out = call.output(0, DType::string, shape);  // padded with empty strings
  for (std::size_t i = 0; i < all.size(); ++i)
    std::move(all[i].begin(), all[i].end(),
              out.values<std::string>().begin() + static_cast<std::ptrdiff_t>(i * width));
}

std::string in_case(std::string_view action, const std::string& text) {
  if (action == "LOWER") return lower(text);
  return action == "UPPER" ? upper(text) : text;
}

void string_normalizer(OpCall& call) {
  const Tensor& data = call.input(0);
  const bool row = data.rank() == 2 && data.shape()[0] == 1;
  require(data.rank() == 1 || row, "a list or one row of strings, not " + to_string(data.shape()));
  const std::string action = call.attributes().string("case_change_action", "NONE");
  require(action == "NONE" || action == "LOWER" || action == "UPPER", "no action " + action);
  const bool exact = call.attributes().flag("is_case_sensitive");
  std::set<std::string> stopwords;
  for (const std::string& word : call.attributes().strings("stopwords"))
    stopwords.insert(exact ? word : lower(word));
  std::vector<std::string> kept;
  for (const std::string& word : data.values<std::string>())
    if (!stopwords.contains(exact ? word : lower(word))) kept.push_back(in_case(action, word));
  if (kept.empty()) kept.emplace_back();  // nothing left: one empty string
  const auto count = static_cast<std::int64_t>(kept.size());
  const Tensor out = call.output(0, DType::string, row ? Shape{1, count} : Shape{count});
  std::move(kept.begin(), kept.end(), out.values<std::string>().begin());
}

// The memory limit in bytes of a compiled pattern and its DFA. RE2 rejects a pattern that needs
// more, and falls back to its NFA if only the DFA does: matching is linear in the text either way.
constexpr std::int64_t kRegexMemory = 8 << 20;

// RE2 prints a warning for patterns of more than a million nodes, whatever its options.
constexpr std::size_t kMaxPatternBytes = 1 << 18;

RE2::Options regex_options() {
  RE2::Options options;  // Perl syntax, UTF-8
  options.set_log_errors(false);
  options.set_max_mem(kRegexMemory);
  return options;
}

void regex_full_match(OpCall& call) {
  const Tensor& data = call.input(0);
  require(call.attributes().has("pattern"), "attribute 'pattern' is missing");
  const std::string pattern = call.attributes().string("pattern", "");
  require(pattern.size() <= kMaxPatternBytes, "a pattern of " + std::to_string(pattern.size()) +
                                                  " bytes, more than " +
                                                  std::to_string(kMaxPatternBytes));
  const RE2 regex(pattern, regex_options());
  require(regex.ok(), "RE2 refuses the pattern: " + in_quotes(regex.error()));
  const Tensor out = call.output(0, DType::boolean, data.shape());
  const auto texts = data.values<std::string>();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    require(!first_invalid_utf8(texts[i]), "a text that is not UTF-8");
    out.values<bool>()[i] = RE2::FullMatch(texts[i], regex);
  }
}

constexpr Types kStrings{DType::string};
constexpr Op kTextOps[] = {
    {"StringConcat", 20, kStrings, string_concat},
    {"StringSplit", 20, kStrings, string_split},
    {"StringNormalizer", 10, kStrings, string_normalizer},
    {"RegexFullMatch", 20, kStrings, regex_full_match},
};

}  // namespace

std::span<const Op> text_ops() { return kTextOps; }

}  // namespace sluice::engine
