#include "cli/common/checks.h"

#include <gmock/gmock.h>

#include <sstream>

#include "base/error.h"
#include "cli/common/command.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;

TEST(NumberBetween, OnlyFiniteNumbersInTheRangeAreAccepted) {
  const auto check = number_between(0, 60);
  for (const auto* good : {"0", "60", "0.5", "1e1"}) EXPECT_EQ(check(good), "") << good;
  for (const auto* bad : {"", "nan", "inf", "-inf", "-1", "60.1", "1x", " 1", "1e999"})
    EXPECT_THAT(check(bad), HasSubstr("is not a number from 0 to 60")) << bad;
}

TEST(FiniteNumber, OtherTextIsRefusedWithAnExample) {
  const auto check = finite_number("a number of watts such as 500");
  for (const auto* good : {"0", "-1", "412.5", "1e3"}) EXPECT_EQ(check(good), "") << good;
  for (const auto* bad : {"", "nan", "inf", "-inf", "500W", " 500", "1e999", "0x10"})
    EXPECT_THAT(check(bad), HasSubstr("a number of watts such as 500")) << bad;
}

struct Answer {
  int code;
  std::string words;
};

Answer call(std::vector<std::string_view> args) {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err};
  const int code = run(args, io);
  return {code, err.str()};
}

TEST(Usage, AnEmptyValueIsRefusedWithAnExample) {
  struct Case {
    const char *command, *option, *wanted;
  };
  for (const auto& [command, option, wanted] :
       {Case{"serve", "--port", "8000"}, Case{"serve", "--host", "127.0.0.1"},
        Case{"serve", "--state", "folder"}, Case{"serve", "--demo", "gpu-falls-off"},
        Case{"serve", "--config", "file"}, Case{"top", "--demo", "gpu-falls-off"},
        Case{"detect", "--demo", "gpu-falls-off"}, Case{"doctor", "--demo", "gpu-falls-off"},
        Case{"tune", "--demo", "gpu-falls-off"}, Case{"tune", "--state", "folder"},
        Case{"tune", "--gpu", "all of them"},
        Case{"tune", "--power-limit", "a number of watts such as 500"}}) {
    SCOPED_TRACE(std::string(command) + " " + option);
    const auto answer = call({command, option, ""});
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.words, HasSubstr(option));
    EXPECT_THAT(answer.words, HasSubstr(wanted));
  }
}

TEST(Usage, DemoAtNeedsAScenarioAndANumber) {
  for (const auto* command : {"detect", "doctor", "tune"}) {
    SCOPED_TRACE(command);
    const auto alone = call({command, "--demo-at", "5"});
    EXPECT_EQ(alone.code, 2);
    EXPECT_THAT(alone.words, HasSubstr("--demo"));
    for (const auto* bad : {"nan", "inf", "-1", "", "soon"}) {
      const auto answer = call({command, "--demo", "eight-gpus", "--demo-at", bad});
      EXPECT_EQ(answer.code, 2) << bad;
      EXPECT_THAT(answer.words, HasSubstr("--demo-at")) << bad;
    }
  }
}

TEST(Usage, ANonNumericPowerLimitIsRefusedWithAnExample) {
  for (const auto* bad : {"nan", "inf", "much", "500W"}) {
    const auto answer = call({"tune", "--demo", "eight-gpus", "--power-limit", bad});
    EXPECT_EQ(answer.code, 2) << bad;
    EXPECT_THAT(answer.words, HasSubstr(std::string("--power-limit: '") + bad +
                                        "' is not a number of watts such as 500"));
  }
}

TEST(Usage, ANonNumericIntervalIsRefused) {
  const auto answer = call({"top", "--once", "--interval", "nan"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.words, HasSubstr("from 0.1 to 60"));
}

}  // namespace
}  // namespace sluice::cli
