// A store whose files are removed, moved, replaced or overwritten while it has them open.
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
  static Lease lease(LeaseId id) {
    Lease lease;
    lease.id = id, lease.secret = 7, lease.state = State::held;
    lease.request = lease_request("scout", 8);
    lease.parts = {{"GPU-0", 8 * kGb}};
    lease.requested_at = lease.granted_at = kNoon.now;
    lease.expires_at = kNoon.now + std::chrono::seconds(60);
    return lease;
  }
  void put(LeaseId id) {
    const auto one = lease(id);
    const Lease* row = &one;
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

// ---- other content

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void overwrite(const std::string& path, std::uintmax_t at, std::uintmax_t count) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << std::string(count, '\0');
}

class OverwrittenFilesTest : public OpenFilesTest {
 protected:
  std::string wal = path + "-wal";

  // As the broker does at its end.
  void close(LeaseId last) {
    EXPECT_TRUE(store->is_damaged());
    std::vector<Lease> leases;
    for (auto id = first; id <= last; ++id) leases.push_back(lease(id));
    std::vector<const Lease*> rows;
    for (const auto& one : leases) rows.push_back(&one);
    store->write_anew(rows, {}, kNoon);
    store.reset();
  }
  std::string copy(const char* suffix) const {
    for (const auto& entry : fs::directory_iterator(options.dir))
      if (const auto name = entry.path().filename().string();
          name.starts_with("leases.db.damaged-") && name.ends_with("-wal") == (*suffix != 0))
        return entry.path();
    return "none";
  }
  void expect_refused_and_saved(const char* why) {
    ASSERT_TRUE(sees(false));
    EXPECT_THAT(refusal(), HasSubstr(why));
    const auto db = content_of(path), log = content_of(wal);
    close(first);
    EXPECT_EQ(content_of(copy("")) == db, true);
    EXPECT_EQ(content_of(copy("-wal")) == log, true);
    Store next(options);
    EXPECT_THAT(next.load(kNoon).leases, SizeIs(1));
    EXPECT_GE(next.load(kNoon).last_id, first);
    EXPECT_THAT(next.damage(), HasSubstr(why));
    EXPECT_THAT(store_health(options.dir).refusal, "");
  }
};

TEST_F(OverwrittenFilesTest, ADatabaseThatIsCutOffIsKeptAndTheLeasesSaved) {
  open();
  fs::resize_file(path, fs::file_size(path) / 2);
  expect_refused_and_saved("leases.db was cut off");
}

TEST_F(OverwrittenFilesTest, ADatabaseThatIsOverwrittenIsKeptAndTheLeasesSaved) {
  open();
  overwrite(path, 0, fs::file_size(path));
  expect_refused_and_saved("leases.db was overwritten");
}

TEST_F(OverwrittenFilesTest, ALogThatIsCutOffIsKeptAndTheLeasesSaved) {
  open();
  fs::resize_file(wal, 0);
  expect_refused_and_saved("leases.db-wal was ");
}

TEST_F(OverwrittenFilesTest, ALogWithoutAHeaderIsSeenByTheNextWrite) {
  open();
  overwrite(wal, 0, fs::file_size(wal));
  put(first + 1);
  EXPECT_FALSE(store->has_its_files());
  expect_refused_and_saved("leases.db-wal was overwritten");
}

TEST_F(OverwrittenFilesTest, OneByteOfTheLogIsSeenBeforeItIsMerged) {
  open();
  overwrite(wal, fs::file_size(wal) - 300, 200);
  const auto before = content_of(path);
  close(first);
  EXPECT_TRUE(content_of(copy("")) == before);
  EXPECT_THAT(Store(options).load(kNoon).leases, SizeIs(1));
}

TEST_F(OverwrittenFilesTest, ADamagedLogIsNotMergedWhileLeasesAreWritten) {
  options.checkpoint_pages = 200;
  open();
  for (LeaseId id = first; id < first + 20; ++id) put(id);
  overwrite(wal, 4096, 40);
  const auto before = content_of(path);
  try {
    for (LeaseId id = first; id < first + 20'000; ++id) put(id);
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("leases.db-wal was overwritten"));
  }
  EXPECT_FALSE(store->has_its_files());
  EXPECT_TRUE(content_of(path) == before);
}

// Nobody could tell its leases: what is there stays, for somebody to look at.
TEST_F(OverwrittenFilesTest, WithoutTheLeasesNothingIsChanged) {
  open();
  fs::resize_file(path, 0);
  const auto log = content_of(wal);
  store.reset();
  EXPECT_EQ(fs::file_size(path), 0U);
  EXPECT_TRUE(content_of(wal) == log);
}

TEST_F(OverwrittenFilesTest, CheckpointsAreNoDamage) {
  options.checkpoint_pages = 16;
  open();
  for (LeaseId id = first; id < first + 2000; ++id) put(id);
  EXPECT_TRUE(sees(true));
  EXPECT_FALSE(store->is_damaged());
  EXPECT_EQ(store->damage(), "");
}

TEST_F(OpenFilesTest, TheReportIsPrivate) {
  open();
  fs::remove(path);
  ASSERT_TRUE(sees(false));
  const auto report = options.dir + "/leases.damage";
  for (int i = 0; i < 500 && !fs::exists(report); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  struct stat facts {};
  ASSERT_EQ(::stat(report.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

}  // namespace
}  // namespace sluice::broker
