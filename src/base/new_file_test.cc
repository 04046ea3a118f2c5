#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class NewFileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all.push_back(entry.path().filename().string());
    return all;
  }
  // Writes half and dies.
  void die_writing() const {
    const pid_t child = ::fork();
    if (child == 0) {
      NewFile half(file_);
      half.write("half");
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("new-file-" + std::to_string(::getpid()));
  const fs::path file_ = folder_ / "x.plan";
};

TEST_F(NewFileTest, TheFileAppearsOnlyWhenItIsKept) {
  {
    NewFile dropped(file_);
    dropped.write("dropped");
  }
  EXPECT_TRUE(names().empty());
  NewFile kept(file_);
  kept.write("kept");
  EXPECT_FALSE(fs::exists(file_));
  kept.keep();
  EXPECT_EQ(text(), "kept");
  EXPECT_THAT(names(), ElementsAre("x.plan"));
}

TEST_F(NewFileTest, HasTheModeThatWasAskedFor) {
  for (const unsigned mode : {0600u, 0644u}) {
    NewFile(file_, mode).keep();
    EXPECT_EQ(static_cast<unsigned>(fs::status(file_).permissions()), mode);
  }
}

TEST_F(NewFileTest, FilesOfAKilledWriterAreRemovedByTheNext) {
  std::ofstream(file_) << "old";
  die_writing();
  EXPECT_EQ(text(), "old");
  EXPECT_EQ(names().size(), 2u);
  NewFile next(file_);
  next.write("new");
  next.keep();
  EXPECT_EQ(text(), "new");
  EXPECT_THAT(names(), ElementsAre("x.plan"));
  die_writing();
  NewFile::remove_leftovers(folder_);
  EXPECT_THAT(names(), ElementsAre("x.plan"));
}

TEST_F(NewFileTest, FilesOfALiveWriterAreKept) {
  NewFile first(file_), second(file_);
  first.write("first");
  NewFile::remove_leftovers(folder_);
  second.write("second");
  second.keep();
  first.keep();
  EXPECT_EQ(text(), "first");
  EXPECT_THAT(names(), ElementsAre("x.plan"));
}

TEST_F(NewFileTest, FilesWithOtherNamesAreKept) {
  std::ofstream(folder_ / "x.plan.newest") << "mine";
  std::ofstream(folder_ / "notes.new-day") << "mine";
  NewFile(file_).keep();
  NewFile::remove_leftovers(folder_);
  EXPECT_EQ(names().size(), 3u);
}

}  // namespace
}  // namespace sluice
