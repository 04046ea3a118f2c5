// A text as tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/normalize/normalized.h"

namespace sluice::text {

// Lists of one length, an element a token. There is no padding.
struct Encoding {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> type_ids;
  std::vector<std::string> tokens;
  std::vector<Span> offsets;                        // in the text; 0, 0 of special tokens
  std::vector<std::optional<std::uint32_t>> words;  // none of special tokens
  std::vector<std::uint8_t> special;                // 1: added around the text
  std::vector<Encoding> overflow;                   // what was truncated, with the stride before it

  std::size_t size() const noexcept { return ids.size(); }
};

enum class TruncationSide { right, left };
enum class TruncationStrategy { longest_first, only_first, only_second };

struct Truncation {
  std::size_t max_length = 512;  // with special tokens
  std::size_t stride = 0;        // tokens that each part repeats of the one before it
  TruncationStrategy strategy = TruncationStrategy::longest_first;
  TruncationSide side = TruncationSide::right;
  bool keeps_overflow = true;
};

// What the parts that overflow may cost, by the tokens of the texts: their ids, and kPartCost each.
// Parts of two texts combine, and a template may have a text again: n parts become n * n.
inline constexpr std::size_t kPartCost = 8;  // a part without ids has the memory of so many
std::size_t most_overflow(std::size_t tokens);

// Truncates a text, or two together, to `truncation.max_length` tokens. Throws invalid_argument
// when the strategy cannot do that, the stride is not less than what remains, or the overflow costs
// more than most_overflow().
void truncate(std::vector<Encoding>& texts, const Truncation& truncation);

// Appends `more`; the overflow is that of each combined with the other. Throws invalid_argument,
// before it makes it, when it costs more than `most`.
void merge(Encoding& encoding, const Encoding& more, std::size_t most);

// Throws invalid_argument when the overflow, with `added` ids in each part, costs more than `most`.
void require_overflow(const Encoding& encoding, std::size_t added, std::size_t most);

}  // namespace sluice::text
