// The store with files that were damaged, cut off, removed or replaced. A folder as a
// killed broker leaves it is a copy of one in use: all that was written is with the kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/sqlite/sqlite.h"
#include "base/sqlite/sqlite_file.h"
#include "broker/broker_for_tests.h"
#include "broker/store/store.h"
#include "broker/store/store_folder.h"
#include "broker/store/stored_rows.h"

namespace sluice::broker {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Moment kThen{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};
constexpr std::uint64_t kFrame = 24 + 4096;

class StoreDamageTest : public testing::Test {
 protected:
  // Six leases, and then the end.
  void kill_a_broker() {
    Store store(Store::Options{folder.path + "/live", "boot"});
    first = store.load(kThen).last_id + 1;
    for (LeaseId id = first; id < first + 6; ++id) put(store, id);
    fs::copy(folder.path + "/live", options.dir);
  }
  static void put(Store& store, LeaseId id) {
    Lease lease;
    lease.id = id, lease.secret = 7, lease.state = State::held;
    lease.request = lease_request("scout", 8);
    lease.parts = {{"GPU-0", 8 * kGb}};
    lease.requested_at = lease.granted_at = kThen.now;
    lease.expires_at = kThen.now + std::chrono::seconds(60);
    const Lease* row = &lease;
    store.write({&row, 1}, kThen);
  }
  void flip(std::uint64_t at) const {
    std::fstream file(wal, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  std::string damage_at_start() const { return Store(options).damage(); }
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(options.dir)) {
      std::ifstream in(entry.path(), std::ios::binary);
      all[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    for (const char* ours : {"leases.lock", "leases.mark"}) all.erase(ours);
    return all;
  }
  std::string refusal() const {
    try {
      const Store store(options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::unavailable);
      return e.what();
    }
    return "";
  }

  TemporaryFolder folder;
  LeaseId first = 0;
  Store::Options options{folder.path + "/state", "boot"};
  std::string path = options.dir + "/leases.db", wal = path + "-wal";
};

TEST_F(StoreDamageTest, AKilledBrokerLeavesNoDamage) {
  kill_a_broker();
  EXPECT_EQ(store_health(options.dir).damage, "");
  Store store(options);
  EXPECT_EQ(store.damage(), "");
  EXPECT_THAT(store.load(kThen).leases, SizeIs(6));
}

TEST_F(StoreDamageTest, AClosedStoreLeavesNoDamage) {
  { Store(options).load(kThen); }
  EXPECT_EQ(damage_at_start(), "");
}

TEST_F(StoreDamageTest, AMarkThatIsGoneIsReportedOnce) {
  { Store(options).load(kThen); }
  fs::remove(options.dir + "/leases.mark");
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("leases.mark is gone"));
  EXPECT_THAT(damage_at_start(), HasSubstr("leases.mark is gone"));
  fs::remove(options.dir + "/leases.damage");
  EXPECT_EQ(damage_at_start(), "");
}

TEST_F(StoreDamageTest, ALogThatIsGoneTogetherWithTheMarkIsReported) {
  kill_a_broker();
  for (const char* name : {"/leases.mark", "/leases.db-wal"}) fs::remove(options.dir + name);
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("the newest leases are lost"));
  EXPECT_THAT(damage_at_start(), HasSubstr("the newest leases are lost"));
}

TEST_F(StoreDamageTest, AFolderWithoutTheLockAndTheDatabaseIsReported) {
  kill_a_broker();
  for (const char* name : {"/leases.lock", "/leases.db", "/leases.db-wal"})
    fs::remove(options.dir + name);
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("leases.db is gone"));
  EXPECT_THAT(damage_at_start(), HasSubstr("leases.db is gone"));
}

TEST_F(StoreDamageTest, ARefusedStartDoesNotHideThatTheMarkIsGone) {
  { Store(options).load(kThen); }
  fs::remove(options.dir + "/leases.mark");
  fs::rename(path, options.dir + "/kept");
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THAT(refusal(), HasSubstr("no database"));
  fs::rename(options.dir + "/kept", path);
  EXPECT_THAT(damage_at_start(), HasSubstr("leases.mark is gone"));
}

TEST_F(StoreDamageTest, AFileOfAnEarlierVersionNeedsNoMark) {
  { Store(options).load(kThen); }
  {
    Database old(path, false);
    for (const char* table : {"leases", "footprints", "state"})
      old.run(std::string("ALTER TABLE ") + table + " DROP COLUMN checksum");
    old.run("PRAGMA user_version = 5");
  }
  fs::remove(options.dir + "/leases.mark");
  EXPECT_EQ(store_health(options.dir).damage, "");
  EXPECT_EQ(damage_at_start(), "");
}

TEST_F(StoreDamageTest, AFlippedByteInTheLogIsReportedAndNoNumberComesTwice) {
  kill_a_broker();
  flip(fs::file_size(wal) - 5 * kFrame + 100);
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("log is damaged after frame"));
  Store store(options);
  EXPECT_THAT(store.damage(), HasSubstr("log is damaged after frame"));
  const auto loaded = store.load(kThen);
  EXPECT_LT(loaded.leases.size(), 6U);
  EXPECT_GE(loaded.last_id, first + 5);
}

TEST_F(StoreDamageTest, AFlippedByteAnywhereInTheLogIsReported) {
  kill_a_broker();
  const auto whole = options.dir;
  const auto frames = inspect_sqlite(path).wal.position->frames;
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    options.dir = folder.path + "/copy-" + std::to_string(frame), path = options.dir + "/leases.db";
    wal = path + "-wal";
    fs::copy(whole, options.dir);
    flip(32 + frame * kFrame + (frame % 2 == 0 ? 9 : 2000));  // the salt, the page
    EXPECT_THAT(damage_at_start(), HasSubstr("write-ahead log")) << frame;
  }
}

TEST_F(StoreDamageTest, ALogThatWasCutOffIsReported) {
  kill_a_broker();
  fs::resize_file(wal, 32 + kFrame * 2);
  EXPECT_THAT(damage_at_start(), HasSubstr("the newest changes are lost"));
}

TEST_F(StoreDamageTest, ALogThatLostItsLastFrameIsReported) {
  kill_a_broker();
  fs::resize_file(wal, fs::file_size(wal) - kFrame);
  EXPECT_THAT(damage_at_start(), HasSubstr("the newest changes are lost"));
}

TEST_F(StoreDamageTest, ALogThatIsGoneOrEmptyIsReported) {
  kill_a_broker();
  const auto whole = options.dir;
  for (const bool is_gone : {true, false}) {
    options.dir = folder.path + (is_gone ? "/gone" : "/empty"), path = options.dir + "/leases.db";
    fs::copy(whole, options.dir);
    if (is_gone)
      fs::remove(path + "-wal");
    else
      fs::resize_file(path + "-wal", 0);
    EXPECT_THAT(damage_at_start(), HasSubstr("the write-ahead log is gone"));
  }
}

TEST_F(StoreDamageTest, ALogOfAnotherTimeIsReported) {
  kill_a_broker();
  fs::copy(wal, folder.path + "/old");
  Store(options).load(kThen);  // merges the log and begins another
  fs::remove(options.dir + "/leases.damage");
  {
    Store next(options);
    put(next, next.load(kThen).last_id + 1);
    fs::copy(options.dir, folder.path + "/again");
  }
  options.dir = folder.path + "/again", path = options.dir + "/leases.db";
  fs::copy_file(folder.path + "/old", path + "-wal", fs::copy_options::overwrite_existing);
  EXPECT_THAT(damage_at_start(), HasSubstr("not the one that was written last"));
}

TEST_F(StoreDamageTest, ADamagedHeaderOfTheLogIsReported) {
  kill_a_broker();
  flip(18);
  EXPECT_THAT(damage_at_start(), HasSubstr("the header of the write-ahead log is damaged"));
}

// A broker that was killed while it wrote leaves frames without an end. They lie behind what the
// next one writes, and are no loss.
TEST_F(StoreDamageTest, ATornWriteIsNoDamage) {
  kill_a_broker();
  {
    std::ifstream in(wal, std::ios::binary);
    std::string head(32, '\0');
    in.read(head.data(), 32);
    std::string frame(kFrame, 'x');
    frame.replace(0, 8, std::string("\0\0\0\2\0\0\0\0", 8)).replace(8, 8, head.substr(16, 8));
    std::ofstream out(wal, std::ios::app | std::ios::binary);
    for (int i = 0; i < 3; ++i) out << frame;
    out << frame.substr(0, 1000);
  }
  const auto whole = options.dir;
  EXPECT_EQ(store_health(whole).damage, "");
  Store store(options);
  EXPECT_EQ(store.damage(), "");
  store.load(kThen);
  put(store, first + 6);
  options.dir = folder.path + "/again";
  fs::copy(whole, options.dir);
  EXPECT_EQ(damage_at_start(), "");
}

TEST_F(StoreDamageTest, ALogThatIsRemovedWhileItIsInUseIsReportedAndSavedByClosing) {
  {
    Store store(options);
    first = store.load(kThen).last_id + 1;
    fs::remove(wal);
    put(store, first);
    for (int i = 0; i < 100 && store.damage().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_THAT(store.damage(), HasSubstr("removed while it is in use"));
  }
  EXPECT_THAT(Store(options).load(kThen).leases, SizeIs(1));
}

TEST_F(StoreDamageTest, TheReportStaysUntilSomebodyRemovesIt) {
  kill_a_broker();
  fs::remove(wal);
  Store(options).load(kThen);
  Store store(options);
  EXPECT_THAT(store.damage(), HasSubstr("log is gone"));
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("log is gone"));
  EXPECT_TRUE(store_health(options.dir).is_in_use);
  fs::remove(options.dir + "/leases.damage");
  EXPECT_EQ(store.damage(), "");
  EXPECT_EQ(store_health(options.dir).damage, "");
}

TEST_F(StoreDamageTest, ADatabaseThatIsGoneIsReported) {
  { Store(options).load(kThen); }
  fs::remove(path);
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("leases.db is gone"));
  EXPECT_THAT(damage_at_start(), HasSubstr("leases.db is gone"));
}

TEST_F(StoreDamageTest, ADamagedMarkIsReportedAndNumbersGoOn) {
  { Store(options).load(kThen); }
  std::fstream(options.dir + "/leases.mark", std::ios::in | std::ios::out) << "reserved 9";
  Store store(options);
  EXPECT_THAT(store.damage(), HasSubstr("leases.mark is damaged"));
  EXPECT_GE(store.load(kThen).last_id, static_cast<LeaseId>(unix_ms(kThen.wall)) * 1000);
}

TEST_F(StoreDamageTest, OneCopyOfADamagedFileIsKept) {
  std::vector<std::string> copies;
  for (int i = 0; i < 2; ++i) {
    kill_a_broker();
    if (i == 0) fs::remove_all(folder.path + "/live");
    flip(fs::file_size(wal) - 5 * kFrame + 100);
    std::ifstream in(wal, std::ios::binary);
    const std::string before{std::istreambuf_iterator<char>(in), {}};
    if (i == 1) std::ofstream(options.dir + "/leases.db.damaged-1") << "an older one";
    EXPECT_THAT(damage_at_start(), HasSubstr("a copy of what is left is leases.db.damaged-"));
    copies.clear();
    for (const auto& [name, text] : contents())
      if (name.starts_with("leases.db.damaged-")) {
        copies.push_back(name);
        EXPECT_EQ(text == before, name.ends_with("-wal")) << name;
      }
    EXPECT_THAT(copies, SizeIs(2));  // with its log
    fs::remove_all(options.dir);
  }
}

TEST_F(StoreDamageTest, ADamagedPageIsFoundWithoutStartingAndNothingIsChanged) {
  {
    Store store(options);
    first = store.load(kThen).last_id + 1;
    for (LeaseId id = first; id < first + 60; ++id) put(store, id);
  }
  ASSERT_EQ(store_health(options.dir).refusal, "");
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 8);
    file << std::string(600, '\xff');
  }
  const auto before = contents();
  EXPECT_THAT(store_health(options.dir).refusal, HasSubstr("damaged"));
  EXPECT_TRUE(contents() == before);
  EXPECT_THAT(refusal(), HasSubstr("damaged"));
}

TEST_F(StoreDamageTest, AnInvalidLeaseIsFoundWithoutStarting) {
  kill_a_broker();
  {
    Database db(path, false);
    db.run("UPDATE leases SET state='strange'");
    seal_rows(db);
  }
  EXPECT_THAT(store_health(options.dir).refusal, HasSubstr("strange"));
}

TEST_F(StoreDamageTest, AnInspectionKeepsNoServerFromStarting) {
  { Store(options).load(kThen); }
  std::jthread looks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) store_health(options.dir);
  });
  for (int i = 0; i < 50; ++i) EXPECT_EQ(refusal(), "");
}

TEST_F(StoreDamageTest, ReportsFromSeveralThreadsAreAllKept) {
  fs::create_directories(options.dir);
  StoreFolder one(options.dir);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&one, i] {
        for (int k = 0; k < 10; ++k) one.report("thing " + std::to_string(i * 10 + k) + ".");
      });
  }
  for (int i = 0; i < 40; ++i)
    EXPECT_THAT(one.damage(), HasSubstr("thing " + std::to_string(i) + "."));
}

// ---- files of others

class ForeignStoreTest : public StoreDamageTest {
 protected:
  // As its program left it when it was killed: with a log that is not merged.
  void make(const std::string& sql) {
    fs::create_directories(folder.path + "/other");
    Database other(folder.path + "/other/leases.db", false);
    other.run("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; " + sql);
    fs::copy(folder.path + "/other", options.dir);
  }
  void expect_refused(const char* why) {
    const auto before = contents();
    EXPECT_THAT(refusal(), HasSubstr(why));
    EXPECT_TRUE(contents() == before);
    EXPECT_THAT(store_health(options.dir).refusal, HasSubstr(why));
  }
};

TEST_F(ForeignStoreTest, ADatabaseOfAnotherProgramIsRefusedAndNotTouched) {
  make("CREATE TABLE notes(text TEXT); INSERT INTO notes VALUES('mine')");
  ASSERT_THAT(contents(), SizeIs(2));
  expect_refused("made by another program");
}

TEST_F(ForeignStoreTest, ANewerDatabaseIsRefusedAndNotTouchedThoughOnlyItsLogSaysSo) {
  { Store(options).load(kThen); }
  fs::rename(options.dir, folder.path + "/other");
  make("PRAGMA user_version=99");
  expect_refused("it has version 99");
}

TEST_F(ForeignStoreTest, ADatabaseWithoutALogIsNotTouchedEither) {
  fs::create_directories(options.dir);
  Database(path, false).run("CREATE TABLE notes(text TEXT)");
  expect_refused("made by another program");
  EXPECT_THAT(contents(), SizeIs(1));
}

TEST_F(ForeignStoreTest, ADamagedDatabaseIsRefusedAndItsLogNotMerged) {
  kill_a_broker();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(60, 'x');
  }
  flip(20);  // so that page 1 is the damaged one
  const auto before = contents();
  EXPECT_THAT(refusal(), HasSubstr("leases.db"));
  EXPECT_TRUE(contents() == before);
}

TEST_F(ForeignStoreTest, LinksInThePlaceOfStateFilesAreRefused) {
  const auto target = folder.path + "/precious";
  for (const char* name : {"leases.lock", "leases.mark", "leases.db", "leases.db-wal"}) {
    std::ofstream(target) << "precious";
    fs::create_directories(options.dir);
    fs::create_symlink(target, options.dir + "/" + name);
    EXPECT_THAT(refusal(), HasSubstr("symbolic link")) << name;
    std::ifstream in(target);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious") << name;
    fs::remove_all(options.dir);
  }
}

}  // namespace
}  // namespace sluice::broker
