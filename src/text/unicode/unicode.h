// Classes and forms of code points, as the reference has them (tools/unicode_tables.py). All
// functions take any code point and are thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::text {

// Classes of a code point, several at a time.
enum CharClass : std::uint32_t {
  kWhitespace = 1 << 0,       // White_Space: spaces, tab, line ends
  kNotText = 1 << 1,          // controls, formats, private and unassigned: BERT drops them
  kNonspacing = 1 << 2,       // Mn: what BERT calls an accent
  kMark = 1 << 3,             // M
  kPunctuation = 1 << 4,      // P, and all of ASCII's symbols
  kNumeric = 1 << 5,          // N
  kLetter = 1 << 6,           // \p{L} of Oniguruma, and so are those below unless said otherwise
  kNumber = 1 << 7,           // \p{N}
  kSpace = 1 << 8,            // \s
  kWord = 1 << 9,             // \w of Rust's regex
  kAnyMark = 1 << 10,         // \p{M}
  kWordOnig = 1 << 11,        // \w
  kDigit = 1 << 12,           // \d
  kAnyPunctuation = 1 << 13,  // \p{P}
  kUpper = 1 << 14,           // \p{Lu}
  kLower = 1 << 15,           // \p{Ll}
  kTitle = 1 << 16,           // \p{Lt}
  kModifier = 1 << 17,        // \p{Lm}
  kOtherLetter = 1 << 18,     // \p{Lo}
};

std::uint32_t classes_of(char32_t c) noexcept;
inline bool is(char32_t c, std::uint32_t any_of) noexcept { return (classes_of(c) & any_of) != 0; }

// What c becomes, in full; empty when it stays as it is.
std::span<const char32_t> canonical_of(char32_t c) noexcept;   // NFD; not of Hangul syllables
std::span<const char32_t> compatible_of(char32_t c) noexcept;  // NFKD; not of Hangul syllables
std::span<const char32_t> lower_of(char32_t c) noexcept;

int combining_class(char32_t c) noexcept;
char32_t composed(char32_t a, char32_t b) noexcept;  // 0: they do not compose

enum class Grapheme : std::uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  joiner,
  regional,
  prepend,
  spacing,
  l,
  v,
  t,
  lv,
  lvt,
  pictograph,
  consonant,
  linker,
};
Grapheme grapheme_of(char32_t c) noexcept;

inline bool is_chinese(char32_t c) noexcept {  // the ideographs that BERT takes for words
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return within(0x4E00, 0x9FFF) || within(0x3400, 0x4DBF) || within(0x20000, 0x2A6DF) ||
         within(0x2A700, 0x2B73F) || within(0x2B740, 0x2B81F) || within(0x2B920, 0x2CEAF) ||
         within(0xF900, 0xFAFF) || within(0x2F800, 0x2FA1F);
}

}  // namespace sluice::text
