#include "base/printable.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Printable, LeavesPlainTextUnchanged) {
  for (const auto* text : {"", "plain", "Übersetzer №1 😀", "<b>bold</b>"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_TRUE(is_plain_text(text)) << text;
  }
}

TEST(Printable, EscapesTerminalControlSequences) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\r\nb\tc\x7f"), "a\\x0d\\x0ab\\x09c\\x7f");
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");               // CSI in one character
  EXPECT_EQ(printable("exe.\u202egnp"), "exe.\\xe2\\x80\\xaegnp");  // right to left
  EXPECT_EQ(printable("one\u2028two"), "one\\xe2\\x80\\xa8two");
  EXPECT_FALSE(is_plain_text("\u009b31m"));
}

TEST(Printable, EscapesInvisibleCharacters) {
  EXPECT_EQ(printable("a\u200bb"), "a\\xe2\\x80\\x8bb");
  for (const auto* text : {"\u00ad", "\u200d", "\u2060", "\ufeff", "\U000e0041"})
    EXPECT_FALSE(is_plain_text(text)) << text;
}

TEST(Printable, DetectsOuterSpaces) {
  for (const auto* text : {" a", "a ", "\u00a0a", "a\u3000", " "})
    EXPECT_TRUE(has_outer_spaces(text)) << text;
  for (const auto* text : {"", "a", "a b", "\u00fcber", "caf\u00e9"})
    EXPECT_FALSE(has_outer_spaces(text)) << text;
}

TEST(Printable, EscapesEveryByteAboveAsciiWhereSomeAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xc3\xa9"), "\\xff\\xc3\\xa9");
  EXPECT_EQ(printable_lines("a\x1b\n\u202e\n"), "a\\x1b\n\\xe2\\x80\\xae\n");
  EXPECT_FALSE(is_plain_text("\xff"));
}

}  // namespace
}  // namespace sluice
