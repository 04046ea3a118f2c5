#include "base/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>

namespace sluice {
namespace {

using namespace std::chrono_literals;

std::string lost(std::uint64_t n) { return "lost " + std::to_string(n) + "\n"; }

// A pipe that holds a page; it is read only on request.
struct LineWriterTest : testing::Test {
  LineWriterTest() {
    EXPECT_EQ(pipe(ends.data()), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  ~LineWriterTest() override {
    close(ends[0]);  // ends a write that is stuck, too
    close(ends[1]);
  }
  std::string read_all() const {
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
      all.append(bytes, static_cast<std::size_t>(n));
    return all;
  }
  std::array<int, 2> ends{};
};

TEST_F(LineWriterTest, WritesLinesInOrderAndTheRestAtTheEnd) {
  {
    LineWriter writer(ends[1], lost);
    for (int i = 0; i < 100; ++i) writer.add(std::to_string(i) + "\n");
    EXPECT_TRUE(writer.flush(5s));
    writer.add("last\n");
  }
  const auto all = read_all();
  EXPECT_TRUE(all.starts_with("0\n1\n2\n")) << all;
  EXPECT_TRUE(all.ends_with("98\n99\nlast\n")) << all;
}

TEST_F(LineWriterTest, AStoppedReaderBlocksNoWriterAndLostLinesAreCounted) {
  LineWriter writer(ends[1], lost, 10);
  const std::string line(1023, 'x');
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) writer.add(line + "\n");
  EXPECT_FALSE(writer.flush(20ms));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);

  std::string all;
  for (int i = 0; i < 5000 && !writer.flush(1ms); ++i) all += read_all();
  all += read_all();
  std::uint64_t counted = 0;  // it may be said in several lines
  for (auto at = all.find("lost "); at != std::string::npos; at = all.find("lost ", at + 1))
    counted += std::stoull(all.substr(at + 5));
  std::uint64_t whole = 0;
  for (auto at = all.find('x'); at != std::string::npos; at = all.find('x', at + line.size()))
    ++whole;
  EXPECT_GT(counted, 0u);
  EXPECT_EQ(whole + counted, 1000u);
}

TEST_F(LineWriterTest, AStoppedReaderDoesNotKeepTheProgramFromExiting) {
  const auto began = std::chrono::steady_clock::now();
  {
    LineWriter writer(ends[1], lost);
    for (int i = 0; i < 10; ++i) writer.add(std::string(1023, 'x') + "\n");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 3s);
  ends[1] = -1;  // left open: its thread may still be writing
}

TEST_F(LineWriterTest, AClosedReaderDoesNotEndTheProgram) {
  close(ends[0]);
  ends[0] = open("/dev/null", O_RDONLY);
  LineWriter writer(ends[1], lost);
  writer.add("nobody reads this\n");
  EXPECT_TRUE(writer.flush(5s));
}

}  // namespace
}  // namespace sluice
