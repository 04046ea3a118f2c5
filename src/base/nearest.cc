#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace sluice {

namespace {

constexpr std::size_t kMaxWordBytes = 64;  // nobody mistypes more, and distance() is quadratic

// Edits (insert, delete, replace) that turn a into b.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  if (word.size() > kMaxWordBytes) return std::nullopt;
  std::size_t best = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::optional<std::string_view> found;
  for (const auto candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter >= best) continue;  // so many edits at least
    const auto d = distance(word, candidate);
    if (d < best) best = d, found = candidate;
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const auto found = nearest(word, candidates);
  return found ? "; did you mean '" + std::string(*found) + "'?" : "";
}

}  // namespace sluice
