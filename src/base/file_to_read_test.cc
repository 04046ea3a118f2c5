#include "base/file_to_read.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace sluice {
namespace {

class FileToReadTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("file_to_read_" + std::to_string(::getpid()));
};

TEST_F(FileToReadTest, AFileIsReadUpToTheRequestedSize) {
  std::ofstream(folder_ / "x") << std::string(200'000, 'x');
  EXPECT_EQ(read_named_file(folder_ / "x"), std::string(200'000, 'x'));
  EXPECT_EQ(read_named_file(folder_ / "x", 3), "xxx");
  EXPECT_EQ(read_named_file("/dev/null"), "");
}

TEST_F(FileToReadTest, BlockingOrEndlessFilesAreNotOpened) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder_ / "zero");
  for (const auto& file : {folder_ / "fifo", folder_ / "zero", folder_, folder_ / "none"}) {
    EXPECT_FALSE(read_named_file(file)) << file;
    EXPECT_LT(open_to_read(file), 0);
  }
  EXPECT_FALSE(read_named_file("/dev/zero", 1));
}

TEST_F(FileToReadTest, AnInheritedPipeIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(read_named_file("/dev/fd/" + std::to_string(ends[0])), "text");
  ::close(ends[0]);
}

}  // namespace
}  // namespace sluice
