#include "cli/common/draw.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::cli {

namespace {

constexpr std::string_view kEscape = "\x1b[";

std::string_view code_of(Ink ink) {
  switch (ink) {
    case Ink::plain: return "";
    case Ink::dim: return "\x1b[2m";
    case Ink::bold: return "\x1b[1m";
    case Ink::good: return "\x1b[32m";
    case Ink::warn: return "\x1b[33m";
    case Ink::bad: return "\x1b[1;31m";
    case Ink::accent: return "\x1b[36m";
    case Ink::reverse: return "\x1b[7m";
  }
  return "";
}

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Length in bytes of the escape sequence or code point at the front.
std::size_t step(std::string_view text) {
  if (text.starts_with(kEscape)) {
    std::size_t end = kEscape.size();
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size());
  }
  std::size_t end = 1;
  while (end < text.size() && !starts_code_point(text[end])) ++end;
  return end;
}

// The front of `text` that takes at most `width` columns, with all its escapes.
std::string cut(std::string_view text, int width) {
  std::string kept;
  for (int used = 0; !text.empty();) {
    const auto n = step(text);
    const bool escape = text.starts_with(kEscape);
    if (escape || used < width) kept += text.substr(0, n);
    if (!escape) ++used;
    text.remove_prefix(n);
  }
  return kept;
}

std::string fitted(std::string_view text, int width, Pen pen) {
  if (columns(text) <= width) return std::string(text);
  if (width <= 1) return cut(text, std::max(width, 0));
  return cut(text, width - 1) + (pen.utf8 ? "…" : ".");
}

std::string repeated(std::string_view what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += what;
  return text;
}

std::string spaces(int n) { return std::string(static_cast<std::size_t>(std::max(n, 0)), ' '); }

}  // namespace

std::string paint(std::string_view text, Ink ink, Pen pen) {
  if (!pen.colour || ink == Ink::plain || text.empty()) return std::string(text);
  return std::string(code_of(ink)) + std::string(text) + "\x1b[0m";
}

std::string bar(double fraction, int width, Pen pen, Ink filled) {
  if (width <= 0) return {};
  const double share = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0;
  const int halves = static_cast<int>(std::lround(share * width * 2));
  if (!pen.utf8) {
    const int full = (halves + 1) / 2;
    return paint(repeated("#", full), filled, pen) +
           paint(repeated(".", width - full), Ink::dim, pen);
  }
  const int full = halves / 2, half = halves % 2;
  return paint(repeated("█", full) + repeated("▌", half), filled, pen) +
         paint(repeated("░", width - full - half), Ink::dim, pen);
}

std::string sparkline(std::span<const std::optional<double>> values, int width, double low,
                      double high, Pen pen) {
  static constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 8> kAscii{"_", ".", "-", "~", "=", "+", "*", "#"};
  const auto& levels = pen.utf8 ? kBlocks : kAscii;
  const auto cells = static_cast<std::size_t>(std::max(width, 0));
  const auto shown = values.last(std::min(cells, values.size()));
  std::string line = spaces(static_cast<int>(cells - shown.size()));
  for (const auto& value : shown) {
    if (!value) {
      line += ' ';
      continue;
    }
    const double share = high > low ? std::clamp((*value - low) / (high - low), 0.0, 1.0) : 0;
    line += levels[std::min<std::size_t>(static_cast<std::size_t>(share * 8), 7)];
  }
  return line;
}

int columns(std::string_view text) {
  int count = 0;
  while (!text.empty()) {
    if (!text.starts_with(kEscape)) ++count;
    text.remove_prefix(step(text));
  }
  return count;
}

std::string left(std::string_view text, int width, Pen pen) {
  const auto kept = fitted(text, width, pen);
  return kept + spaces(width - columns(kept));
}

std::string right(std::string_view text, int width, Pen pen) {
  const auto kept = fitted(text, width, pen);
  return spaces(width - columns(kept)) + kept;
}

std::string displayable(std::string_view text, Pen pen) {
  if (pen.utf8) return std::string(text);
  std::string plain;
  while (!text.empty()) {
    const auto n = step(text);
    const auto character = text.substr(0, n);
    plain += n == 1 || character.starts_with(kEscape) ? character
             : character == "…"                       ? "..."
             : character == "·"                       ? "-"
             : character == "°"                       ? ""
                                                      : "?";
    text.remove_prefix(n);
  }
  return plain;
}

}  // namespace sluice::cli
