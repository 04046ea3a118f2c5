// NFC, NFD, NFKC and NFKD, with the changes of characters that the reference reports.
#include <algorithm>

#include "text/normalize/normalizer.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

struct Char {
  char32_t c;
  std::ptrdiff_t change;  // 0: in the place of a character; 1: added; below: drops some behind it
  int combining;
};

constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kSyllables = 11172, kPerLeading = 588, kFinals = 28;

// The decomposition of a text in canonical order.
class Decomposer {
 public:
  explicit Decomposer(bool compatible) : compatible_(compatible) {}

  void add(char32_t c) {
    if (c - kSBase < kSyllables) return add_syllable(c - kSBase);
    const auto parts = compatible_ ? compatible_of(c) : canonical_of(c);
    if (parts.empty()) return push(c, 0);
    for (std::size_t i = 0; i < parts.size(); ++i) push(parts[i], i > 0);
  }

  std::vector<Char> take() {
    sort_marks();
    return std::move(chars_);
  }

 private:
  void add_syllable(char32_t index) {
    push(kLBase + index / kPerLeading, 0);
    push(kVBase + index % kPerLeading / kFinals, 1);
    if (index % kFinals != 0) push(kTBase + index % kFinals, 1);
  }

  void push(char32_t c, std::ptrdiff_t change) {
    const int combining = combining_class(c);
    if (combining == 0) sort_marks();
    chars_.push_back({c, change, combining});
    if (combining == 0) sorted_ = chars_.size();
  }

  void sort_marks() {
    std::stable_sort(chars_.begin() + static_cast<std::ptrdiff_t>(sorted_), chars_.end(),
                     [](const Char& a, const Char& b) { return a.combining < b.combining; });
    sorted_ = chars_.size();
  }

  bool compatible_;
  std::vector<Char> chars_;
  std::size_t sorted_ = 0;
};

// Composes in place.
void compose(std::vector<Char>& chars) {
  std::size_t kept = 0, starter = 0;
  bool has_starter = false;
  int last = -1;  // combining class of what stands behind the starter; -1: nothing
  for (const Char one : chars) {
    if (has_starter && last < one.combining) {
      if (const char32_t both = composed(chars[starter].c, one.c)) {
        chars[starter].c = both;
        chars[starter].change += one.change - 1;
        continue;
      }
    }
    if (one.combining == 0) {
      starter = kept, has_starter = true, last = -1;
    } else if (has_starter) {
      last = one.combining;
    }
    chars[kept++] = one;
  }
  chars.resize(kept);
}

}  // namespace

void to_form(Normalized& text, Form form) {
  if (is_ascii(text.text)) return;
  Decomposer decomposer(form == Form::nfkc || form == Form::nfkd);
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) { decomposer.add(c); });
  auto chars = decomposer.take();
  if (form == Form::nfc || form == Form::nfkc) compose(chars);
  Rewriter out(text);
  for (const Char& one : chars) out.put(one.c, one.change);
  out.finish();
}

}  // namespace sluice::text
