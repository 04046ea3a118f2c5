#include "formats/map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <thread>

#include "base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Large enough to be mapped; the contents encode their position.
std::string numbers() {
  std::string text(5'000'003, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

class MapTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(file_); }

  void put(std::string_view bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  const fs::path file_ =
      fs::path(::testing::TempDir()) / ("map-test-" + std::to_string(::getpid()));
};

TEST_F(MapTest, MappedFilesKeepTheirContents) {
  const std::string before = numbers();
  for (const bool leased : {true, false}) {
    put(before);
    const int writer = leased ? -1 : ::open(file_.c_str(), O_WRONLY);  // then there is no lease
    std::shared_ptr<const void> keep, again;
    const std::string_view bytes = map_file(file_, keep), second = map_file(file_, again);
    ASSERT_EQ(bytes, before);
    put(std::string(before.size(), 'x'));  // overwritten in place
    EXPECT_EQ(bytes, before);
    fs::resize_file(file_, 100);  // truncated: would be SIGBUS
    EXPECT_EQ(bytes, before);
    EXPECT_EQ(second, before);
    std::shared_ptr<const void> later;
    EXPECT_EQ(map_file(file_, later), std::string(100, 'x'));
    if (writer >= 0) ::close(writer);
  }
}

TEST_F(MapTest, FilesCanBeTruncatedWhileMapped) {
  const std::string before = numbers();
  put(before);
  std::shared_ptr<const void> keep;
  const std::string_view bytes = map_file(file_, keep);
  std::atomic<bool> over = false, wrong = false;
  std::thread reader([&] {
    while (!over) wrong = wrong || bytes != before;
  });
  fs::resize_file(file_, 0);
  over = true;
  reader.join();
  EXPECT_FALSE(wrong);
}

TEST_F(MapTest, WritersDoNotWaitForUnmappedFiles) {
  put(numbers());
  std::shared_ptr<const void> keep;
  (void)map_file(file_, keep);
  keep.reset();
  const int fd = ::open(file_.c_str(), O_WRONLY | O_NONBLOCK);  // would fail under a lease
  EXPECT_GE(fd, 0);
  ::close(fd);
}

TEST_F(MapTest, ForkedChildrenLeaveTheLeaseToTheirParent) {
  const std::string before = numbers();
  put(before);
  std::shared_ptr<const void> keep;
  const std::string_view bytes = map_file(file_, keep);
  const pid_t child = ::fork();
  if (child == 0) {
    keep.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  put(std::string(before.size(), 'x'));
  EXPECT_TRUE(bytes == before);
}

TEST_F(MapTest, InaccessiblePathsAreNamed) {
  EXPECT_TRUE(is_there(file_.parent_path()));
  EXPECT_FALSE(is_there(file_));
  try {
    is_there(std::string(300, 'n'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.reason().find("nnn': File name too long"), std::string_view::npos);
  }
}

TEST_F(MapTest, NonRegularFilesAreRejectedWithoutBlocking) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  std::shared_ptr<const void> keep;
  EXPECT_THROW(map_file(file_, keep), Error);
  EXPECT_THROW(map_file(file_.parent_path(), keep), Error);
  EXPECT_THROW(map_file(file_.parent_path() / "none", keep), Error);
}

}  // namespace
}  // namespace sluice
