// Damage that SQLite does not see: flipped bits in the values of leases.db.
#include "broker/store/stored_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "base/sqlite/sqlite.h"
#include "broker/broker_for_tests.h"
#include "broker/store/store_folder.h"
#include "broker/store/store_rows.h"

namespace sluice::broker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Moment kStart{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};
constexpr std::int64_t kOwner = 41001;

Lease owned(LeaseId id, State state = State::held) {
  Lease l;
  l.id = id, l.secret = 0x0102030405060708, l.state = state;
  l.request = lease_request("victim", 8);
  l.request.holder = {4711, 99, kOwner, 0}, l.request.peer = "uid:41001";
  if (state == State::held) l.parts = {{"GPU-0", 8 * kGb}};
  if (state == State::ended) l.ending = EndReason::released, l.ended_at = kStart.now;
  l.requested_at = l.granted_at = kStart.now;
  l.expires_at = kStart.now + std::chrono::seconds(60);
  return l;
}

class StoredRowsTest : public testing::Test {
 protected:
  // A closed store with leases `first`, in force, and `first` + 1, ended.
  void SetUp() override {
    Store store(options);
    first = store.load(kStart).last_id + 1;
    store.remember_boot();
    store.write({"uid:1", "scout", "mini"}, std::vector<Footprint>{{16, kGb, false}}, kStart);
    const auto held = owned(first), over = owned(first + 1, State::ended);
    const Lease* const rows[] = {&held, &over};
    store.write(rows, kStart);
  }
  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void overwrite(std::size_t at, char byte) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  // As damage does it: the checksum stays.
  void change(const std::string& sql) const { Database(path, false).run(sql); }

  TemporaryFolder folder;
  Store::Options options{folder.path + "/state", "boot"};
  std::string path = options.dir + "/leases.db";
  LeaseId first = 0;
};

TEST_F(StoredRowsTest, ALeaseWhoseOwnerWasFlippedIsReportedAndNotRestored) {
  const auto all = bytes();
  std::string uid{'\0', '\0', '\0'};
  for (int i = 0; i < 3; ++i) uid[static_cast<std::size_t>(i)] = char(kOwner >> (16 - 8 * i));
  for (auto at = all.find(uid); at != all.npos; at = all.find(uid, at + 3))
    overwrite(at + 2, static_cast<char>(uid[2] ^ 2));  // 41003
  EXPECT_THAT(store_health(options.dir).damage, HasSubstr("do not agree with their checksum"));
  EXPECT_EQ(store_health(options.dir).refusal, "");
  {
    Store store(options);
    const auto loaded = store.load(kStart);
    EXPECT_THAT(loaded.leases, IsEmpty());
    EXPECT_THAT(store.damage(), HasSubstr(std::to_string(first)));
    EXPECT_THAT(store.damage(), HasSubstr("a copy of what was found is leases.db.damaged-"));
    EXPECT_GT(loaded.last_id, first + 1);
    EXPECT_FALSE(store.find(first, kStart));
  }
  fs::remove(options.dir + "/leases.damage");
  Store store(options);  // it is reported once
  EXPECT_THAT(store.load(kStart).leases, IsEmpty());
  EXPECT_EQ(store.damage(), "");
}

TEST_F(StoredRowsTest, TheCopyOfDamagedRowsHasThemAndIsPrivate) {
  change("UPDATE leases SET uid = 41003 WHERE state = 'held'");
  Store(options).load(kStart);
  std::vector<std::string> copies;
  for (const auto& entry : fs::directory_iterator(options.dir))
    if (entry.path().filename().string().starts_with("leases.db.damaged-"))
      copies.push_back(entry.path());
  ASSERT_THAT(copies, SizeIs(1));
  struct stat facts {};
  ASSERT_EQ(::stat(copies[0].c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  Database copy(copies[0], false);
  EXPECT_EQ(copy.number("SELECT uid FROM leases WHERE state = 'held'"), 41003);
}

// Each byte of the page that has the row, and so each column, and the page's own header.
TEST_F(StoredRowsTest, NoFlippedBitChangesALeaseUnseen) {
  const auto all = bytes();
  const auto at = all.find("victim");
  ASSERT_NE(at, all.npos);
  const auto page = at / 4096 * 4096;
  int unchanged = 0, dropped = 0;
  for (auto i = page; i < page + 4096; ++i) {
    if (i >= page + 64 && i < page + 2048) continue;  // unused
    overwrite(i, static_cast<char>(all[i] ^ (1 << (i % 8))));
    try {
      Database db(path, false);
      require_whole(db);
      const auto rows = read_rows(db, kStart);
      const auto damage = damage_in(rows);
      if (damage.empty()) {
        ASSERT_THAT(rows.live, SizeIs(1)) << i - page;
        EXPECT_EQ(rows.live[0].id, first) << i - page;
        EXPECT_EQ(rows.live[0].request.holder.uid, kOwner) << i - page;
        EXPECT_EQ(rows.live[0].secret, owned(first).secret) << i - page;
        EXPECT_EQ(rows.live[0].parts, owned(first).parts) << i - page;
        ++unchanged;
      } else {
        ++dropped;
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::internal) << e.what();
    }
    overwrite(i, all[i]);
  }
  EXPECT_GT(dropped, 200);
}

TEST_F(StoredRowsTest, EachColumnIsChecked) {
  std::vector<std::string> columns;
  {
    Database db(path, false);
    Statement names(db, "SELECT name FROM pragma_table_info('leases')");
    while (names.step()) columns.push_back(names.text(0));
  }
  EXPECT_THAT(columns, SizeIs(kLeaseColumns + 1));
  for (const auto& column : columns) {
    Database db(path, false);
    db.run("BEGIN; UPDATE leases SET " + column + " = CASE typeof(" + column +
           ") WHEN 'text' THEN " + column + " || 'x' ELSE " + column + " + 1048576 END " +
           "WHERE state = 'held'");
    EXPECT_THAT(read_rows(db, kStart).damaged_leases, SizeIs(1)) << column;
    db.run("ROLLBACK");
  }
}

TEST_F(StoredRowsTest, ADamagedEndedLeaseIsReported) {
  change("UPDATE leases SET reason = 'another' WHERE state = 'ended'");
  Store store(options);
  EXPECT_THAT(store.load(kStart).leases, SizeIs(1));
  EXPECT_THAT(store.damage(), HasSubstr(std::to_string(first + 1)));
  EXPECT_FALSE(store.find(first + 1, kStart));
}

// The number may have been damaged to any value; those that were given are reserved.
TEST_F(StoredRowsTest, ADamagedNumberMovesNoOtherAndIsNotGivenAgain) {
  for (const char* id : {"4611686018427387000", "-5", "9223372036854775807"}) {
    change(std::string("UPDATE leases SET id = ") + id + " WHERE state = 'held'");
    Store store(options);
    const auto loaded = store.load(kStart);
    EXPECT_THAT(loaded.leases, IsEmpty());
    EXPECT_THAT(store.damage(), HasSubstr(id));
    EXPECT_GT(loaded.last_id, first + 1);
    EXPECT_LT(loaded.last_id, first + 10'000'000);
    const auto held = owned(first);
    const Lease* row = &held;
    store.write({&row, 1}, kStart);
  }
}

TEST_F(StoredRowsTest, ADamagedFootprintIsReportedAndOthersStay) {
  Store(options).write({"uid:2", "other", "mini"}, std::vector<Footprint>{{8, kGb, false}}, kStart);
  change("UPDATE footprints SET runs = '17 1073741824 0' WHERE agent = 'scout'");
  {
    Store store(options);
    const auto loaded = store.load(kStart);
    ASSERT_THAT(loaded.footprints, SizeIs(1));
    EXPECT_EQ(loaded.footprints.begin()->first.agent, "other");
    EXPECT_THAT(store.damage(), HasSubstr("reports of memory use"));
  }
  EXPECT_THAT(Store(options).load(kStart).footprints, SizeIs(1));
}

TEST_F(StoredRowsTest, ADamagedRecordOfTheBootEndsNoLease) {
  for (const char* what : {"value = 'bopt'", "key = 'bopt'"}) {
    change(std::string("UPDATE state SET ") + what + " WHERE key = 'boot'");
    Store store(options);
    EXPECT_TRUE(store.load(kStart).same_boot) << what;
    EXPECT_THAT(store.damage(), HasSubstr("record of the boot")) << what;
    store.remember_boot();
    fs::remove(options.dir + "/leases.damage");
  }
  EXPECT_TRUE(Store(options).load(kStart).same_boot);
}

TEST_F(StoredRowsTest, AFileOfTheFifthVersionGetsChecksums) {
  {
    Database old(path, false);
    for (const char* table : {"leases", "footprints", "state"})
      old.run(std::string("ALTER TABLE ") + table + " DROP COLUMN checksum");
    old.run("PRAGMA user_version = 5");
  }
  EXPECT_EQ(store_health(options.dir).damage, "");
  {
    Store store(options);
    const auto loaded = store.load(kStart);
    EXPECT_THAT(loaded.leases, SizeIs(1));
    EXPECT_THAT(loaded.footprints, SizeIs(1));
    EXPECT_TRUE(loaded.same_boot);
    EXPECT_TRUE(store.find(first + 1, kStart));
    EXPECT_EQ(store.damage(), "");
  }
  change("UPDATE leases SET uid = 41003 WHERE state = 'held'");
  EXPECT_THAT(Store(options).load(kStart).leases, IsEmpty());
}

}  // namespace
}  // namespace sluice::broker
