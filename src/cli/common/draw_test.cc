#include "cli/common/draw.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::cli {
namespace {

constexpr Pen kPlain{false, true}, kAscii{false, false}, kColour{true, true};

TEST(Draw, ABarHasTheRequestedWidth) {
  for (const double fraction : {-1.0, 0.0, 0.03, 0.5, 0.999, 1.0, 7.0})
    for (const auto pen : {kPlain, kAscii, kColour})
      EXPECT_EQ(columns(bar(fraction, 10, pen, Ink::good)), 10) << fraction;
  EXPECT_EQ(bar(0.5, 0, kPlain), "");
}

TEST(Draw, ABarShowsHalfCells) {
  EXPECT_EQ(bar(0.45, 10, kPlain), "████▌░░░░░");
  EXPECT_EQ(bar(0.45, 10, kAscii), "#####.....");
  EXPECT_EQ(bar(1, 4, kPlain), "████");
}

TEST(Draw, ASparklineHasGapsForMissingValues) {
  const std::vector<std::optional<double>> values{0.0, std::nullopt, 50.0, 100.0};
  EXPECT_EQ(sparkline(values, 6, 0, 100, kPlain), "  ▁ ▅█");
  EXPECT_EQ(sparkline(values, 2, 0, 100, kPlain), "▅█");
  EXPECT_EQ(sparkline(values, 4, 0, 100, kAscii), "_ =#");
  EXPECT_EQ(sparkline({}, 3, 0, 100, kPlain), "   ");
}

TEST(Draw, ColoursTakeNoColumns) {
  const auto red = paint("hot", Ink::bad, kColour);
  EXPECT_NE(red, "hot");
  EXPECT_EQ(columns(red), 3);
  EXPECT_EQ(paint("hot", Ink::bad, kPlain), "hot");
}

TEST(Draw, LongTextIsCutAndShortTextIsPadded) {
  EXPECT_EQ(left("abcdef", 4, kPlain), "abc…");
  EXPECT_EQ(left("abcdef", 4, kAscii), "abc.");
  EXPECT_EQ(left("ab", 4, kPlain), "ab  ");
  EXPECT_EQ(right("ab", 4, kPlain), "  ab");
  EXPECT_EQ(left("▅█▅", 3, kPlain), "▅█▅");
}

TEST(Draw, ACutKeepsColourCodesIntact) {
  const auto cut = left(paint("abcdef", Ink::bad, kColour), 3, kColour);
  EXPECT_EQ(columns(cut), 3);
  EXPECT_TRUE(cut.find("\x1b[0m") != std::string::npos);
}

TEST(Draw, AnAsciiTerminalGetsAsciiOnly) {
  for (const char c : displayable("84 °C … · é", kAscii)) EXPECT_GE(c, ' ');
  EXPECT_EQ(displayable("84 °C", kPlain), "84 °C");
}

}  // namespace
}  // namespace sluice::cli
