// Text that draws: bars, sparklines, cells of a fixed width. Pure; a Pen says
// what the terminal can show, so that a test sees what a person would.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::cli {

struct Pen {
  bool colour = false;
  bool utf8 = true;
};

enum class Ink { plain, dim, bold, good, warn, bad, accent, reverse };

// `text` in that colour, or as it is without colours.
std::string paint(std::string_view text, Ink ink, Pen pen);

// `fraction` (0..1, cut there) as a bar of exactly `width` columns. Without ink
// for the part that is filled it is drawn plain.
std::string bar(double fraction, int width, Pen pen, Ink filled = Ink::plain);

// The newest `width` values, oldest first, each as one column between `low` and
// `high`; an absent value is a gap, and so is the time before the first.
std::string sparkline(std::span<const std::optional<double>> values, int width, double low,
                      double high, Pen pen);

// Columns that `text` takes on a terminal; colours take none. Counts a code point
// as one column, which holds for everything this program prints.
int columns(std::string_view text);

// Exactly `width` columns: cut with "…" (or ".") or filled with spaces.
std::string left(std::string_view text, int width, Pen pen);
std::string right(std::string_view text, int width, Pen pen);

// Characters that the terminal cannot show are replaced: "…" by "...", "°" left out.
std::string displayable(std::string_view text, Pen pen);

}  // namespace sluice::cli
