// GPT-2's words: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
#include "text/pattern/pattern.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

namespace sluice::text {
namespace {

enum class Kind : std::uint8_t { letter, number, space, other };

Kind kind_of(char32_t c) {
  const auto classes = classes_of(c);
  if (classes & kLetter) return Kind::letter;
  if (classes & kNumber) return Kind::number;
  return classes & kSpace ? Kind::space : Kind::other;
}

struct AsciiKinds {
  Kind kinds[128];
  AsciiKinds() {
    for (char32_t c = 0; c < 128; ++c) kinds[c] = kind_of(c);
  }
};

// The kind of the code point at `at`, which it moves behind it.
Kind next_kind(std::string_view text, std::size_t& at) {
  static const AsciiKinds ascii;
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte >= 128) return kind_of(next_code_point(text, at));
  ++at;
  return ascii.kinds[byte];
}

std::size_t contraction_end(std::string_view text, std::size_t at) {
  const auto rest = text.substr(at + 1, 2);
  if (rest.starts_with('s') || rest.starts_with('t')) return at + 2;
  if (rest == "re" || rest == "ve") return at + 3;
  if (rest.starts_with('m')) return at + 2;
  if (rest == "ll") return at + 3;
  return rest.starts_with('d') ? at + 2 : at;
}

// The end of the run of `kind` from `at` on.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind) {
  while (at < text.size()) {
    std::size_t next = at;
    if (next_kind(text, next) != kind) break;
    at = next;
  }
  return at;
}

// The end of a run of white space: its last character belongs to what follows, if it has others.
std::size_t spaces_end(std::string_view text, std::size_t begin) {
  const std::size_t end = run_end(text, begin, Kind::space);
  if (end == text.size()) return end;
  std::size_t last = end - 1;
  while (last > begin && is_tail_byte(text[last])) --last;
  return last > begin ? last : end;
}

}  // namespace

std::size_t gpt2_word_end(std::string_view text, std::size_t at) noexcept {
  if (text[at] == '\'')
    if (const auto end = contraction_end(text, at); end > at) return end;
  std::size_t behind = at;
  Kind kind = next_kind(text, behind);
  if (text[at] == ' ' && behind < text.size()) {
    std::size_t word = behind;
    const Kind next = next_kind(text, word);
    if (next != Kind::space) return run_end(text, word, next);
  }
  return kind == Kind::space ? spaces_end(text, at) : run_end(text, behind, kind);
}

}  // namespace sluice::text
