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

// Truncates a text, or two together, to `truncation.max_length` tokens. Throws invalid_argument
// when the strategy cannot do that, or the stride is not less than what remains.
void truncate(std::vector<Encoding>& texts, const Truncation& truncation);

// Appends `more`; the overflow is that of each combined with the other.
void merge(Encoding& encoding, const Encoding& more);

}  // namespace sluice::text
