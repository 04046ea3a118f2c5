// What becomes of the separators when a text is split at them.
#pragma once

#include <vector>

#include "text/pattern/pattern.h"
#include "text/pretokenize/pieces.h"

namespace sluice::text {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Splits [begin, end) at `matches` (from begin on) and appends the parts, without empty ones. With
// `inverted`, the matches are the text and what lies between are separators.
void split_at(Piece piece, const std::vector<Match>& matches, Behavior behavior, bool inverted,
              std::vector<Piece>& parts);

// Splits each part that is no token at the matches that find(text, matches) reports.
template <class Find>
void split_each(Pieces& pieces, Behavior behavior, bool inverted, Find&& find) {
  std::vector<Piece> parts;
  std::vector<Match> matches;
  parts.reserve(pieces.pieces.size());
  for (const Piece& piece : pieces.pieces) {
    if (piece.token) {
      parts.push_back(piece);
      continue;
    }
    matches.clear();
    find(pieces.view(piece), matches);
    split_at(piece, matches, behavior, inverted, parts);
  }
  pieces.pieces.swap(parts);
}

// The same at each code point for which is_separator(c).
template <class IsSeparator>
void split_at_each(Pieces& pieces, Behavior behavior, IsSeparator&& is_separator) {
  split_each(pieces, behavior, false, [&](std::string_view text, std::vector<Match>& matches) {
    for_each_code_point(text, [&](char32_t c, std::size_t begin, std::size_t end) {
      if (is_separator(c))
        matches.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    });
  });
}

}  // namespace sluice::text
