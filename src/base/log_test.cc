#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

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

TEST(Log, AFullPipeHoldsNobodyUpAndTheLossIsSaid) {
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

}  // namespace
}  // namespace sluice
