#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace sluice {
namespace {

using testing::HasSubstr;

// stderr is a pipe while this lives.
struct StderrPipe {
  StderrPipe() {
    EXPECT_EQ(pipe(ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
  }
  ~StderrPipe() {
    close(ends[0]);
    log::flush(std::chrono::seconds(5));  // into nothing: before the next test's lines
    dup2(before, STDERR_FILENO);
    close(before);
  }
  std::string read_all() const {
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
      all.append(bytes, static_cast<std::size_t>(n));
    return all;
  }
  const int before = dup(STDERR_FILENO);
  int ends[2];
};

TEST(Log, OneLinePerEventWithTimeAndLevel) {
  const StderrPipe pipe;
  log::warn("{} of {}", 3, 4);
  log::debug("not shown");
  ASSERT_TRUE(log::flush(std::chrono::seconds(5)));
  EXPECT_THAT(pipe.read_all(), testing::MatchesRegex("....-..-.. ..:..:..\\.... warning 3 of 4\n"));
}

TEST(Log, ExternalTextCannotForgeAnEventOrControlATerminal) {
  const StderrPipe pipe;
  log::warn("agent {}", "a\n2026-11-16 10:00:00.000 error forged\x1b[2J\u009b31m");
  ASSERT_TRUE(log::flush(std::chrono::seconds(5)));
  EXPECT_THAT(pipe.read_all(),
              testing::EndsWith("warning agent a\n  | 2026-11-16 10:00:00.000 error "
                                "forged\\x1b[2J\\xc2\\x9b31m\n"));
}

TEST(Log, ALongEventIsCut) {
  const StderrPipe pipe;
  log::warn("{}", std::string(3 << 20, 'x'));
  std::string all;
  for (int i = 0; i < 5000 && !all.ends_with("...\n"); ++i) {
    all += pipe.read_all();
    log::flush(std::chrono::milliseconds(1));
  }
  EXPECT_LT(all.size(), 9u << 10);
  EXPECT_THAT(all, testing::EndsWith("x...\n"));
}

TEST(Log, AFullPipeBlocksNoWriterAndTheLossIsReported) {
  const StderrPipe pipe;
  for (int i = 0; i < 5000; ++i) log::info("{:1000}", i);
  EXPECT_FALSE(log::flush(std::chrono::milliseconds(10)));
  std::string all;
  for (int i = 0; i < 20000 && all.find("messages dropped") == std::string::npos; ++i) {
    all += pipe.read_all();
    log::flush(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(all, HasSubstr("messages dropped"));
}

// A new process, as death tests start it: the thread that writes does not survive a fork.
struct LogDeathTest : testing::Test {
  LogDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  static void many_lines() {
    log::flush_on_crash();
    for (int i = 0; i < 900; ++i) log::info("line {} of many", i);
  }
};

TEST_F(LogDeathTest, QueuedLinesAreWrittenBeforeAnAbort) {
  EXPECT_EXIT((many_lines(), std::abort()), testing::KilledBySignal(SIGABRT), "line 899 of many");
}

// A sanitizer has its own way to end after these two, and is let to it.
TEST_F(LogDeathTest, QueuedLinesAreWrittenBeforeASentSignal) {
  EXPECT_DEATH((many_lines(), raise(SIGFPE)), "line 899 of many");
}

TEST_F(LogDeathTest, QueuedLinesAreWrittenBeforeAFault) {
  const auto fault = [] {
    auto* nothing = mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    many_lines();
    *static_cast<volatile char*>(nothing) = 1;
  };
  EXPECT_DEATH(fault(), "line 899 of many");
}

TEST_F(LogDeathTest, ACrashDoesNotWaitForAReaderThatHasStopped) {
  const auto stuck = [] {
    const StderrPipe pipe;
    many_lines();
    alarm(20);  // another signal, if it does
    std::abort();
  };
  EXPECT_EXIT(stuck(), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace sluice
