#include "cli/common/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice::cli {
namespace {

struct NoTerminal : testing::Test {
  int fd = ::open("/dev/null", O_WRONLY);
  ~NoTerminal() override {
    ::close(fd);
    ::unsetenv("COLUMNS");
  }
};

TEST_F(NoTerminal, TheWidthIsTakenFromColumns) {
  ::setenv("COLUMNS", "132", 1);
  EXPECT_EQ(terminal_of(fd).width, 132);
  EXPECT_FALSE(terminal_of(fd).is_terminal);
}

TEST_F(NoTerminal, AnInvalidColumnsGivesAWidthOfEighty) {
  ::unsetenv("COLUMNS");
  EXPECT_EQ(terminal_of(fd).width, 80);
  for (const auto* bad : {"", "0", "-5", "wide", "120x", "5", "99999999999"}) {
    ::setenv("COLUMNS", bad, 1);
    EXPECT_EQ(terminal_of(fd).width, 80) << bad;
  }
}

}  // namespace
}  // namespace sluice::cli
