// A text in parts: words to tokenize, and added tokens that were found.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/normalize/normalized.h"

namespace sluice::text {

struct Piece {
  std::uint32_t begin = 0, end = 0;         // bytes of the text
  std::optional<std::uint32_t> token = {};  // an added token: not split any more
};

struct Pieces {
  Normalized text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const noexcept {
    return std::string_view(text.text).substr(piece.begin, piece.end - piece.begin);
  }
};

// Runs rewrite(Normalized&) on each part that is no token, and puts the results together; empty
// ones are dropped.
template <class Rewrite>
void rewrite_each(Pieces& pieces, Rewrite&& rewrite) {
  Pieces next;
  next.text.clear(pieces.text.tracked);
  next.text.most = pieces.text.most;
  next.pieces.reserve(pieces.pieces.size());
  Normalized part;
  for (const Piece& piece : pieces.pieces) {
    part.assign(pieces.text, piece.begin, piece.end);
    if (!piece.token) rewrite(part);
    if (part.text.empty()) continue;
    const auto begin = static_cast<std::uint32_t>(next.text.text.size());
    next.text.append(part);
    next.pieces.push_back({begin, static_cast<std::uint32_t>(next.text.text.size()), piece.token});
  }
  std::swap(pieces.text, next.text);
  std::swap(pieces.pieces, next.pieces);
}

}  // namespace sluice::text
