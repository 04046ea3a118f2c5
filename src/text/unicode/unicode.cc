#include "text/unicode/unicode.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sluice::text {
namespace {

struct Run {
  char32_t first;
  std::uint32_t value;
};
struct Composition {
  char32_t a, b, both;
};

#include "text/unicode/tables.inc"

constexpr char32_t kCodePoints = 0x110000;
constexpr std::size_t kBlock = 128;

// A value a code point, in blocks that are kept once.
template <class Value>
class Table {
 public:
  explicit Table(std::span<const Run> runs) {
    std::vector<Value> all(kCodePoints);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto end = i + 1 < runs.size() ? runs[i + 1].first : kCodePoints;
      std::fill(all.begin() + runs[i].first, all.begin() + end, static_cast<Value>(runs[i].value));
    }
    build(all);
  }

  explicit Table(const std::vector<Value>& all) { build(all); }

  Value operator[](char32_t c) const noexcept {
    return c < kCodePoints ? values_[blocks_[c / kBlock] * kBlock + c % kBlock] : Value{};
  }

 private:
  void build(const std::vector<Value>& all) {
    std::unordered_map<std::string_view, std::uint16_t> known;
    for (std::size_t at = 0; at < all.size(); at += kBlock) {
      const auto bytes = std::as_bytes(std::span(all).subspan(at, kBlock));
      const std::string_view key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const auto number = static_cast<std::uint16_t>(known.size());
      const auto [found, is_new] = known.try_emplace(key, number);
      if (is_new)
        values_.insert(values_.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                       all.begin() + static_cast<std::ptrdiff_t>(at + kBlock));
      blocks_[at / kBlock] = found->second;
    }
  }

  std::array<std::uint16_t, kCodePoints / kBlock> blocks_{};
  std::vector<Value> values_;
};

// Code point, length, and as many code points that it becomes.
class Forms {
 public:
  explicit Forms(std::span<const char32_t> flat) : flat_(flat), places_(places(flat)) {}

  std::span<const char32_t> operator[](char32_t c) const noexcept {
    const std::size_t at = places_[c];
    return at == 0 ? std::span<const char32_t>{} : flat_.subspan(at + 1, flat_[at]);
  }

 private:
  static std::vector<std::uint16_t> places(std::span<const char32_t> flat) {
    std::vector<std::uint16_t> all(kCodePoints);
    for (std::size_t at = 0; at < flat.size(); at += 2 + flat[at + 1])
      all[flat[at]] = static_cast<std::uint16_t>(at + 1);
    return all;
  }

  std::span<const char32_t> flat_;
  Table<std::uint16_t> places_;
};

static_assert(std::size(kCompatible) < 65536, "places have 16 bits");

const Table<std::uint32_t>& class_table() {
  static const Table<std::uint32_t> table{std::span(kFlagRuns)};
  return table;
}

constexpr std::uint64_t pair_key(char32_t a, char32_t b) { return std::uint64_t{a} << 32 | b; }

constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

// Of Hangul: a leading consonant and a vowel, or their syllable and a final consonant.
char32_t composed_hangul(char32_t a, char32_t b) {
  if (a - kLBase < kLCount && b - kVBase < kVCount)
    return kSBase + ((a - kLBase) * kVCount + (b - kVBase)) * kTCount;
  if (a - kSBase < kSCount && (a - kSBase) % kTCount == 0 && b > kTBase && b < kTBase + kTCount)
    return a + (b - kTBase);
  return 0;
}

}  // namespace

std::uint32_t classes_of(char32_t c) noexcept { return class_table()[c]; }

std::span<const char32_t> canonical_of(char32_t c) noexcept {
  static const Forms forms{std::span(kCanonical)};
  return forms[c];
}

std::span<const char32_t> compatible_of(char32_t c) noexcept {
  static const Forms forms{std::span(kCompatible)};
  return forms[c];
}

std::span<const char32_t> lower_of(char32_t c) noexcept {
  static const Forms forms{std::span(kLowerForms)};
  return forms[c];
}

int combining_class(char32_t c) noexcept {
  static const Table<std::uint8_t> table{std::span(kCombiningRuns)};
  return table[c];
}

char32_t composed(char32_t a, char32_t b) noexcept {
  static const auto pairs = [] {
    std::unordered_map<std::uint64_t, char32_t> all;
    for (const auto& one : kCompositions) all.emplace(pair_key(one.a, one.b), one.both);
    return all;
  }();
  if (const auto hangul = composed_hangul(a, b)) return hangul;
  const auto found = pairs.find(pair_key(a, b));
  return found == pairs.end() ? 0 : found->second;
}

Grapheme grapheme_of(char32_t c) noexcept {
  static const Table<std::uint8_t> table{std::span(kGraphemeRuns)};
  return static_cast<Grapheme>(table[c]);
}

}  // namespace sluice::text
