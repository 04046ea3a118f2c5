#include "cli/common/shell_quote.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(ShellQuote, LeavesPlainWordsAloneWhereQuotesAreNotNeeded) {
  EXPECT_EQ(shell_quote_if_needed("--state=/var/lib/sluice"), "--state=/var/lib/sluice");
  EXPECT_EQ(shell_quote_if_needed("my folder"), "'my folder'");
  EXPECT_EQ(shell_quote_if_needed(""), "''");
}

TEST(ShellQuote, MakesOneWordOfAnyText) {
  EXPECT_EQ(shell_quote("plain"), "'plain'");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("my folder"), "'my folder'");
  EXPECT_EQ(shell_quote("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(shell_quote("a\nb;c"), "'a\nb;c'");
}

}  // namespace
}  // namespace sluice::cli
