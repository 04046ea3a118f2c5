// A store whose files are removed, moved or replaced while it has them open.
#include "broker/store/open_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "broker/broker_for_tests.h"
#include "broker/store/store.h"
#include "broker/store/store_folder.h"

namespace sluice::broker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::SizeIs;

const Moment kNoon{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};

class OpenFilesTest : public testing::Test {
 protected:
  void open() {
    store.emplace(options);
    first = store->load(kNoon).last_id + 1;
    put(first);
  }
  void put(LeaseId id) {
    Lease lease;
    lease.id = id, lease.secret = 7, lease.state = State::held;
    lease.request = lease_request("scout", 8);
    lease.parts = {{"GPU-0", 8 * kGb}};
    lease.requested_at = lease.granted_at = kNoon.now;
    lease.expires_at = kNoon.now + std::chrono::seconds(60);
    const Lease* row = &lease;
    store->write({&row, 1}, kNoon);
  }
  bool sees(bool in_place) const {
    for (int i = 0; i < 500 && store->has_its_files() != in_place; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return store->has_its_files() == in_place;
  }
  std::string refusal() {
    try {
      store->probe(kNoon);
      put(first + 1);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::unavailable);
      return e.what();
    }
    return "";
  }
  void expect_saved_by_closing() {
    store.reset();
    Store next(options);
    EXPECT_THAT(next.load(kNoon).leases, SizeIs(1));
    EXPECT_THAT(next.damage(), HasSubstr("was removed while it is in use"));
    EXPECT_EQ(next.damage().find("gone"), std::string::npos) << next.damage();
  }

  TemporaryFolder folder;
  Store::Options options{folder.path + "/state", "boot"};
  std::string path = options.dir + "/leases.db";
  LeaseId first = 0;
  std::optional<Store> store;
};

TEST_F(OpenFilesTest, ADatabaseThatIsRemovedIsReportedRefusedAndSavedByClosing) {
  open();
  fs::remove(path);
  ASSERT_TRUE(sees(false));
  EXPECT_THAT(refusal(), HasSubstr("leases.db was removed while it is in use"));
  EXPECT_THAT(store->damage(), HasSubstr("which writes all leases to a new file"));
  expect_saved_by_closing();
}

TEST_F(OpenFilesTest, ALogThatIsRemovedIsSavedByClosing) {
  open();
  fs::remove(path + "-wal");
  ASSERT_TRUE(sees(false));
  EXPECT_THAT(refusal(), HasSubstr("leases.db-wal was removed"));
  expect_saved_by_closing();
}

TEST_F(OpenFilesTest, AFolderThatIsRemovedIsReportedAndSavedByClosing) {
  open();
  fs::remove_all(options.dir);
  ASSERT_TRUE(sees(false));
  EXPECT_THAT(refusal(), HasSubstr("removed while it is in use"));
  EXPECT_THAT(store->damage(), HasSubstr("removed while it is in use"));
  EXPECT_FALSE(fs::exists(options.dir));  // the report waits in memory
  store.reset();
  struct stat facts {};
  ASSERT_EQ(::stat(options.dir.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("removed while it is in use"));
  expect_saved_by_closing();
}

TEST_F(OpenFilesTest, AFolderThatIsMovedIsRefusedUntilItIsBack) {
  open();
  fs::rename(options.dir, folder.path + "/moved");
  ASSERT_TRUE(sees(false));
  EXPECT_THAT(refusal(), HasSubstr("was moved or replaced"));
  fs::rename(folder.path + "/moved", options.dir);
  ASSERT_TRUE(sees(true));
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(store->damage(), "");
}

TEST_F(OpenFilesTest, AFolderThatWasMovedKeepsItsLeases) {
  open();
  fs::rename(options.dir, folder.path + "/moved");
  ASSERT_TRUE(sees(false));
  store.reset();
  EXPECT_FALSE(fs::exists(options.dir));
  Store next({folder.path + "/moved", "boot"});
  EXPECT_THAT(next.load(kNoon).leases, SizeIs(1));
  EXPECT_EQ(next.damage(), "");
}

TEST_F(OpenFilesTest, AFileInThePlaceOfTheDatabaseIsNotOverwritten) {
  open();
  fs::remove(path);
  std::ofstream(path) << "another";
  ASSERT_TRUE(sees(false));
  store.reset();
  EXPECT_EQ(fs::file_size(path), 7U);
  EXPECT_TRUE(fs::exists(path + ".anew"));
}

// Another server could start beside this one.
TEST_F(OpenFilesTest, ALockThatIsRemovedIsRefused) {
  open();
  fs::remove(options.dir + "/leases.lock");
  ASSERT_TRUE(sees(false));
  EXPECT_THAT(refusal(), HasSubstr("leases.lock was removed"));
}

// As a folder that its owner closed is for a server that is not root.
TEST_F(OpenFilesTest, AFolderThatCannotBeReadEndsNoProcess) {
  open();
  fs::rename(options.dir, folder.path + "/moved");
  fs::create_directory_symlink(options.dir, options.dir);  // names in it: ELOOP
  store.reset();
  fs::remove(options.dir);
  fs::rename(folder.path + "/moved", options.dir);
  Store next(options);
  EXPECT_THAT(next.load(kNoon).leases, SizeIs(1));
  EXPECT_EQ(next.damage(), "");
}

TEST_F(OpenFilesTest, TheReportIsPrivate) {
  open();
  fs::remove(path);
  ASSERT_TRUE(sees(false));
  struct stat facts {};
  ASSERT_EQ(::stat((options.dir + "/leases.damage").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

}  // namespace
}  // namespace sluice::broker
