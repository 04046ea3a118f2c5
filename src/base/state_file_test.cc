#include "base/state_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StateFileTest : public testing::Test {
 protected:
  StateFileTest() {
    std::string name = (fs::temp_directory_path() / "sluice-state-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~StateFileTest() override { fs::remove_all(folder); }

  std::string refusal(int flags) {
    try {
      const StateFile file(path(), flags);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::unavailable);
      return e.what();
    }
    return "";
  }
  std::string path() const { return folder + "/file"; }
  static std::string content(const std::string& of) {
    std::ifstream in(of);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder;
};

TEST_F(StateFileTest, IsMadePrivateAndOpenedAgain) {
  EXPECT_FALSE(StateFile(path(), O_RDONLY).is_open());
  EXPECT_EQ(read_state_file(path(), 100), std::nullopt);
  EXPECT_TRUE(StateFile(path(), O_RDWR | O_CREAT).is_open());
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  std::ofstream(path()) << "text";
  EXPECT_EQ(read_state_file(path(), 100), "text");
  EXPECT_THROW(read_state_file(path(), 3), Error);
}

TEST_F(StateFileTest, AHardLinkIsRefusedAndTheOtherFileUntouched) {
  const auto other = folder + "/other";
  std::ofstream(other) << "precious";
  fs::create_hard_link(other, path());
  EXPECT_THAT(refusal(O_WRONLY | O_CREAT | O_TRUNC), HasSubstr("hard link"));
  EXPECT_THROW(check_state_file(path()), Error);
  EXPECT_EQ(content(other), "precious");
}

TEST_F(StateFileTest, AFileThatOthersMayReadIsMadePrivate) {
  std::ofstream(path()) << "text";
  fs::permissions(path(), fs::perms(0666));
  StateFile(path(), O_RDONLY);
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0666));
  StateFile(path(), O_RDWR | O_CREAT);
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0600));
}

TEST_F(StateFileTest, AFolderThatOthersMayWriteToGivesAWarning) {
  const auto folder_warning = [](const std::string& path) {
    return sluice::folder_warning(path, ::geteuid());
  };
  EXPECT_EQ(folder_warning(folder), "");
  fs::permissions(folder, fs::perms(0770));
  EXPECT_THAT(folder_warning(folder), HasSubstr("its group"));
  fs::permissions(folder, fs::perms(0757));
  EXPECT_THAT(folder_warning(folder), HasSubstr("every user"));
  EXPECT_EQ(folder_warning(folder + "/none"), "");
}

TEST_F(StateFileTest, AFolderOfAnotherUserGivesAWarning) {
  struct stat facts {};
  ASSERT_EQ(::stat(folder.c_str(), &facts), 0);
  if (facts.st_uid != 0) GTEST_SKIP() << "another owner takes root";
  ASSERT_EQ(::chown(folder.c_str(), 4711, 4711), 0);
  EXPECT_EQ(folder_warning(folder, 4711), "");
  EXPECT_THAT(folder_warning(folder, 0), HasSubstr("belongs to user 4711"));
}

TEST_F(StateFileTest, ASymbolicLinkIsRefusedAndItsTargetUntouched) {
  const auto target = folder + "/target";
  std::ofstream(target) << "precious";
  fs::create_symlink(target, path());
  for (const int flags : {O_RDONLY, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC})
    EXPECT_THAT(refusal(flags), HasSubstr("symbolic link"));
  EXPECT_EQ(content(target), "precious");
  EXPECT_THROW(check_state_file(path()), Error);
}

TEST_F(StateFileTest, ADanglingLinkCreatesNothing) {
  fs::create_symlink(folder + "/elsewhere", path());
  EXPECT_THAT(refusal(O_RDWR | O_CREAT), HasSubstr("symbolic link"));
  EXPECT_FALSE(fs::exists(folder + "/elsewhere"));
}

TEST_F(StateFileTest, APipeOrAFolderIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(refusal(O_RDONLY), HasSubstr("no regular file"));
  EXPECT_THAT(refusal(O_RDWR | O_CREAT), HasSubstr("no regular file"));
  fs::remove(path());
  fs::create_directory(path());
  EXPECT_THAT(refusal(O_RDONLY), HasSubstr("no regular file"));
}

TEST_F(StateFileTest, TheFolderMayBeReachedThroughALink) {
  fs::create_directory_symlink(folder, folder + "-link");
  EXPECT_TRUE(StateFile(folder + "-link/file", O_RDWR | O_CREAT).is_open());
  fs::remove(folder + "-link");
}

TEST_F(StateFileTest, AFileOfAnotherUserIsRefusedAndNotEmptied) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root to give a file away";
  std::ofstream(path()) << "theirs";
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(O_RDWR | O_TRUNC), HasSubstr("belongs to user 12345"));
  EXPECT_EQ(content(path()), "theirs");
}

TEST_F(StateFileTest, OnlyASocketIsRemovedAsASocket) {
  std::ofstream(path()) << "precious";
  EXPECT_THROW(remove_stale_socket(path()), Error);
  EXPECT_EQ(content(path()), "precious");
  fs::remove(path());
  remove_stale_socket(path());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path().copy(name.sun_path, sizeof name.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ::close(fd);
  remove_stale_socket(path());
  EXPECT_FALSE(fs::exists(fs::symlink_status(path())));
}

}  // namespace
}  // namespace sluice
