#include "text/pretokenize/split.h"

#include <algorithm>

namespace sluice::text {
namespace {

struct Part {
  std::uint32_t begin, end;
  bool is_match;
};

std::vector<Part> parts_of(const Piece& piece, const std::vector<Match>& matches, bool inverted) {
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  std::uint32_t done = piece.begin;
  for (const Match& match : matches) {
    const std::uint32_t begin = piece.begin + match.begin, end = piece.begin + match.end;
    if (done < begin) parts.push_back({done, begin, inverted});
    parts.push_back({begin, end, !inverted});
    done = end;
  }
  if (done < piece.end) parts.push_back({done, piece.end, inverted});
  return parts;
}

bool joins(const Part& part, bool previous, Behavior behavior) {
  if (behavior == Behavior::contiguous) return part.is_match == previous;
  return part.is_match && !previous;  // the first separator of several
}

// Merges parts with the one before them, as the behavior says.
void merge(std::vector<Part>& parts, Behavior behavior) {
  if (behavior == Behavior::merged_with_next) std::ranges::reverse(parts);
  std::size_t kept = 0;
  bool previous = false;
  for (const Part part : parts) {
    if (kept > 0 && joins(part, previous, behavior)) {
      parts[kept - 1].begin = std::min(parts[kept - 1].begin, part.begin);
      parts[kept - 1].end = std::max(parts[kept - 1].end, part.end);
    } else {
      parts[kept++] = part;
    }
    previous = part.is_match;
  }
  parts.resize(kept);
  if (behavior == Behavior::merged_with_next) std::ranges::reverse(parts);
}

}  // namespace

void split_at(Piece piece, const std::vector<Match>& matches, Behavior behavior, bool inverted,
              std::vector<Piece>& out) {
  auto parts = parts_of(piece, matches, inverted);
  if (behavior != Behavior::removed && behavior != Behavior::isolated) merge(parts, behavior);
  for (const Part& part : parts) {
    const bool removed = behavior == Behavior::removed && part.is_match;
    if (part.begin < part.end && !removed) out.push_back({part.begin, part.end});
  }
}

}  // namespace sluice::text
