#include "broker/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/sanitized_for_tests.h"
#include "base/sqlite/sqlite.h"
#include "broker/broker_for_tests.h"
#include "broker/store/store_mark.h"
#include "broker/store/store_rows.h"
#include "broker/store/stored_rows.h"

namespace sluice::broker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Moment kNow{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};

Instant at(double s) { return kNow.now + std::chrono::duration_cast<Steady::duration>(Seconds(s)); }

Lease lease(LeaseId id, State state = State::held) {
  Lease l;
  l.id = id, l.secret = 0xfedcba9876543210, l.renewals = 3;
  l.request = lease_request("scout", 8, OnUnavailable::wait);
  l.request.min_bytes = 5, l.request.gpus = 2, l.request.priority = Priority::high;
  l.request.model_type = "mini 'quoted'", l.request.device = "", l.request.numa_node = 1;
  l.request.linked = true, l.request.placement = PlacementPolicy::spread;
  l.request.ttl = Seconds(2.5), l.request.wait = Seconds(7), l.request.client_limits = true;
  l.request.holder = {4711, 99, 1000, 5};
  l.request.peer = "key:team 'a'", l.request.idempotency_key = "retry-7";
  l.state = state;
  l.parts = {{"GPU-0", 8 * kGb}, {"AMD-0000:03:00.0", 8 * kGb}};
  l.enforcement = Enforcement::client;
  l.reason = "because";
  l.requested_at = at(-10), l.granted_at = at(-5), l.expires_at = at(60);
  l.yields_to = 2;
  l.yield_requested_at = at(-4), l.yield_freed_at = at(-2.5), l.yield_kept = kGb;
  if (state == State::ended) l.ending = EndReason::released, l.ended_at = at(-1);
  return l;
}

LeaseId us(const Moment& moment) { return static_cast<LeaseId>(unix_ms(moment.wall)) * 1000; }

// Version 3 had no columns for them.
constexpr const char* kFourthVersion =
    "DROP INDEX leases_by_peer; DROP INDEX leases_by_end;"
    "CREATE INDEX leases_by_end ON leases(ended_ms) WHERE ended_ms > 0; DROP TABLE footprints; "
    "CREATE TABLE footprints(agent TEXT NOT NULL,"
    "  model_type TEXT NOT NULL, runs TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    "  PRIMARY KEY(agent, model_type)) WITHOUT ROWID; PRAGMA user_version=4;"
    "ALTER TABLE leases DROP COLUMN checksum; ALTER TABLE state DROP COLUMN checksum;";
const std::string kWithoutPeers =
    std::string(kFourthVersion) +
    "ALTER TABLE leases DROP COLUMN peer; ALTER TABLE leases DROP COLUMN idempotency_key";

void write(Store& store, const std::vector<Lease>& leases, const Moment& when = kNow) {
  std::vector<const Lease*> rows;
  for (const auto& l : leases) rows.push_back(&l);
  store.write(rows, when);
}

std::string error_of(const Store::Options& options) {
  try {
    Store store(options);
    store.load(kNow);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unavailable);
    return e.what();
  }
  return "";
}

std::vector<LeaseId> ids(const std::vector<Lease>& leases) {
  std::vector<LeaseId> all;
  for (const auto& l : leases) all.push_back(l.id);
  return all;
}

class StoreTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  Store::Options options{folder.path + "/state", "boot-1"};
  std::string path = options.dir + "/leases.db";
};

TEST_F(StoreTest, AnEmptyStoreHasNothing) {
  Store store(options);
  const auto loaded = store.load(kNow);
  EXPECT_THAT(loaded.leases, IsEmpty());
  EXPECT_EQ(loaded.last_id, us(kNow));
  EXPECT_FALSE(loaded.same_boot);
}

TEST_F(StoreTest, AFileOfTheFirstVersionIsTakenOver) {
  write(*std::make_unique<Store>(options), {lease(7), lease(8, State::ended)});
  {
    Database old(path, false);
    old.run(kWithoutPeers);
    old.run(
        "ALTER TABLE leases DROP COLUMN yield_kept; ALTER TABLE leases DROP COLUMN yield_asked_ms;"
        "ALTER TABLE leases DROP COLUMN yield_freed_ms; PRAGMA user_version=1");
  }
  Store store(options);
  const auto loaded = store.load(kNow);
  ASSERT_THAT(ids(loaded.leases), ElementsAre(7));
  EXPECT_EQ(loaded.leases[0].request.agent, "scout");
  EXPECT_EQ(loaded.leases[0].yield_requested_at, Instant{});
  write(store, {lease(9, State::ended)});
  EXPECT_EQ(store.find(9, kNow)->yield_freed_at, at(-2.5));
}

TEST_F(StoreTest, AFileOfTheSecondVersionIsTakenOverWithWhatItSaysOfPreemptions) {
  write(*std::make_unique<Store>(options), {lease(7), lease(8, State::ended)});
  {
    Database old(path, false);
    old.run(kWithoutPeers);
    old.run("ALTER TABLE leases DROP COLUMN yield_kept; PRAGMA user_version=2");
  }
  {
    Store store(options);
    EXPECT_THAT(ids(store.load(kNow).leases), ElementsAre(7));
    EXPECT_EQ(store.find(8, kNow)->yield_freed_at, at(-2.5));
    EXPECT_EQ(store.find(8, kNow)->yield_kept, 0U);
    write(store, {lease(9, State::ended)});
  }
  EXPECT_EQ(Store(options).find(9, kNow)->yield_kept, kGb);  // and the next one finds the newest
}

TEST_F(StoreTest, AFileOfTheFourthVersionIsTakenOverAndItsFootprintsAreOfNoPeer) {
  write(*std::make_unique<Store>(options), {lease(7)});
  {
    Database old(path, false);
    old.run(kFourthVersion);
    old.run("INSERT INTO footprints VALUES('scout', 'mini', '16 100 0', 5)");
  }
  const auto loaded = Store(options).load(kNow);
  EXPECT_THAT(ids(loaded.leases), ElementsAre(7));
  ASSERT_TRUE(loaded.footprints.contains({"", "scout", "mini"}));
  EXPECT_EQ(loaded.footprints.at({"", "scout", "mini"}).at_ms, 5);
}

TEST_F(StoreTest, AFileOfTheThirdVersionIsTakenOverAndItsLeasesHaveNoPeer) {
  write(*std::make_unique<Store>(options), {lease(7)});
  {
    Database old(path, false);
    old.run(kWithoutPeers);
    old.run("PRAGMA user_version=3");
  }
  {
    Store store(options);
    const auto loaded = store.load(kNow);
    ASSERT_THAT(ids(loaded.leases), ElementsAre(7));
    EXPECT_EQ(loaded.leases[0].request.peer, "");
    EXPECT_EQ(loaded.leases[0].request.idempotency_key, "");
    write(store, {lease(8)});
  }
  EXPECT_EQ(Store(options).find(8, kNow)->request.idempotency_key, "retry-7");
}

TEST_F(StoreTest, ALeaseRoundTrips) {
  const auto before = lease(7);
  write(*std::make_unique<Store>(options), {before});
  const auto loaded = Store(options).load(kNow);
  ASSERT_THAT(loaded.leases, SizeIs(1));
  const auto& after = loaded.leases[0];
  EXPECT_EQ(after.secret, before.secret);
  EXPECT_EQ(after.renewals, 3U);
  EXPECT_EQ(after.parts, before.parts);
  EXPECT_EQ(after.request.agent, "scout");
  EXPECT_EQ(after.request.bytes, 8 * kGb);
  EXPECT_EQ(after.request.min_bytes, 5U);
  EXPECT_EQ(after.request.gpus, 2U);
  EXPECT_EQ(after.request.priority, Priority::high);
  EXPECT_EQ(after.request.model_type, "mini 'quoted'");
  EXPECT_EQ(after.request.numa_node, 1);
  EXPECT_TRUE(after.request.linked);
  EXPECT_EQ(after.request.placement, PlacementPolicy::spread);
  EXPECT_EQ(after.request.ttl, Seconds(2.5));
  EXPECT_EQ(after.request.wait, Seconds(7));
  EXPECT_EQ(after.request.on_unavailable, OnUnavailable::wait);
  EXPECT_TRUE(after.request.client_limits);
  EXPECT_EQ(after.request.holder, (Holder{4711, 99, 1000, 0}));  // connections do not survive
  EXPECT_EQ(after.request.peer, "key:team 'a'");
  EXPECT_EQ(after.request.idempotency_key, "retry-7");
  EXPECT_EQ(after.state, State::held);
  EXPECT_EQ(after.enforcement, Enforcement::client);
  EXPECT_EQ(after.yield_requested_at, before.yield_requested_at);
  EXPECT_EQ(after.yield_freed_at, before.yield_freed_at);
  EXPECT_EQ(after.yield_kept, before.yield_kept);
  EXPECT_EQ(after.reason, "because");
  EXPECT_EQ(after.requested_at, before.requested_at);
  EXPECT_EQ(after.granted_at, before.granted_at);
  EXPECT_EQ(after.expires_at, before.expires_at);
  EXPECT_EQ(after.ended_at, Instant{});
  EXPECT_EQ(after.yields_to, 2U);
}

TEST_F(StoreTest, TimesAreWallTimesAndFollowANewSteadyClock) {
  write(*std::make_unique<Store>(options), {lease(7)});
  const Moment later{Instant(std::chrono::seconds(3)), kNow.wall + std::chrono::seconds(20)};
  const auto after = Store(options).load(later).leases[0];
  EXPECT_DOUBLE_EQ(seconds_between(later.now, after.expires_at), 40);
  EXPECT_DOUBLE_EQ(seconds_between(after.requested_at, later.now), 30);
}

// They are fencing tokens: those that were given out must not come again.
TEST_F(StoreTest, NumbersGoOnAboveThoseOfAFolderThatIsGone) {
  LeaseId last = 0;
  {
    Store store(options);
    last = store.load(kNow).last_id + 100'000;  // in a second: as many as no broker gives
    write(store, {lease(last)});
  }
  std::filesystem::remove_all(options.dir);
  const Moment later{kNow.now, kNow.wall + std::chrono::seconds(1)};
  EXPECT_GT(Store(options).load(later).last_id, last);
}

TEST_F(StoreTest, NumbersGoOnAboveThoseOfADatabaseThatIsGoneThoughTheClockIsSetBack) {
  LeaseId last = 0;
  {
    Store store(options);
    last = store.load(kNow).last_id + 1;
    write(store, {lease(last)});
  }
  for (const char* suffix : {"", "-wal"}) std::filesystem::remove(path + suffix);
  const Moment before{kNow.now, kNow.wall - std::chrono::hours(24 * 365)};
  EXPECT_GE(Store(options).load(before).last_id, last);
}

TEST_F(StoreTest, NumbersAreReservedOnDiskBeforeTheyAreUsed) {
  Store store(options);
  auto id = store.load(kNow).last_id;
  for (int i = 0; i < 5; ++i) {
    id += 50'000;
    write(store, {lease(id)});
    EXPECT_GE(read_mark(options.dir + "/leases.mark").reserved, id);
  }
}

TEST_F(StoreTest, TheLastNumberIsKeptThoughItsLeaseIsOver) {
  {
    Store store(options);
    write(store, {lease(3, State::ended), lease(9, State::ended)});
    const Moment next_year{kNow.now, kNow.wall + std::chrono::hours(9000)};
    store.forget_old(next_year);
  }
  const auto loaded = Store(options).load(kNow);
  EXPECT_THAT(loaded.leases, IsEmpty());
  EXPECT_GE(loaded.last_id, 9U);
}

TEST_F(StoreTest, KnowsWhetherTheMachineWasBootedMeanwhile) {
  {
    Store store(options);
    store.load(kNow);
    store.remember_boot();
  }
  EXPECT_TRUE(Store(options).load(kNow).same_boot);
  EXPECT_FALSE(Store({options.dir, "boot-2"}).load(kNow).same_boot);
  EXPECT_FALSE(Store({options.dir, ""}).load(kNow).same_boot);
}

TEST_F(StoreTest, FootprintsRoundTrip) {
  const std::vector<Footprint> runs{{16, 5 * kGb, false}, {64, 9 * kGb, true}};
  Store(options).write({"uid:1", "scout", "mini"}, runs, kNow);
  const auto loaded = Store(options).load(kNow).footprints;
  ASSERT_TRUE(loaded.contains({"uid:1", "scout", "mini"}));
  const auto& back = loaded.at({"uid:1", "scout", "mini"}).runs;
  ASSERT_THAT(back, SizeIs(2));
  EXPECT_EQ(back[1].batch_size, 64);
  EXPECT_EQ(back[1].bytes, 9 * kGb);
  EXPECT_TRUE(back[1].out_of_memory);
  EXPECT_FALSE(back[0].out_of_memory);
}

TEST_F(StoreTest, EndedLeasesAreFoundUntilThereAreTooMany) {
  options.keep_ended = 10;
  Store store(options);
  for (LeaseId id = 1; id <= 100; ++id) {
    auto over = lease(id, State::ended);
    over.ended_at = at(static_cast<double>(id));
    write(store, {over}, {at(200), kNow.wall + std::chrono::seconds(200)});
  }
  const auto all = store.between(0, unix_ms(kNow.wall) + 1'000'000, 1000, kNow).leases;
  EXPECT_LE(all.size(), 11U);
  EXPECT_GE(all.size(), 8U);
  EXPECT_EQ(all.back().id, 100U);
  EXPECT_TRUE(store.find(100, kNow));
  EXPECT_FALSE(store.find(1, kNow));
}

TEST_F(StoreTest, OnePeersManyEndedLeasesCostOthersNoneOfTheirs) {
  options.keep_ended = 50;
  {
    Store store(options);
    const Moment then{at(2000), kNow.wall + std::chrono::seconds(2000)};
    for (LeaseId id = 1; id <= 1000; ++id) {
      auto over = lease(id, State::ended);
      over.ended_at = at(static_cast<double>(id));
      over.request.peer = id <= 20 ? "uid:1" : "uid:2";
      write(store, {over}, then);
    }
    for (LeaseId id = 1; id <= 20; ++id) EXPECT_TRUE(store.find(id, kNow)) << id;
    EXPECT_FALSE(store.find(21, kNow));
    EXPECT_LE(store.between(0, unix_ms(then.wall), 1000, kNow).leases.size(), 52U);
  }
}

TEST_F(StoreTest, TheTimelineHasLeasesThatOverlapTheRange) {
  Store store(options);
  auto early = lease(1, State::ended), late = lease(2, State::ended), live = lease(3);
  early.requested_at = at(-100), early.ended_at = at(-90);
  late.requested_at = at(-50), late.ended_at = at(-10);
  live.requested_at = at(-20);
  write(store, {early, late, live});
  const auto now_ms = unix_ms(kNow.wall);
  EXPECT_THAT(ids(store.between(now_ms - 95'000, now_ms - 60'000, 9, kNow).leases), ElementsAre(1));
  EXPECT_THAT(ids(store.between(now_ms - 15'000, now_ms, 9, kNow).leases), ElementsAre(2, 3));
  EXPECT_THAT(ids(store.between(now_ms - 200'000, now_ms, 2, kNow).leases), ElementsAre(2, 3));
}

TEST_F(StoreTest, ADamagedRowIsTheOnlyOneMissingFromTheTimeline) {
  Store store(options);
  for (LeaseId id = 1; id <= 9; ++id) write(store, {lease(id, State::ended)});
  const auto damage = [&](int id, const std::string& what) {
    Database(path, false).run("UPDATE leases SET " + what + " WHERE id=" + std::to_string(id));
  };
  damage(2, "state='maybe'");
  damage(4, "parts='many GPU-0'");
  damage(5, "ended_ms=9223372036854775807");
  damage(6, "agent=CAST(x'ff41' AS TEXT)");
  damage(7, "ttl_ms=-5");
  damage(8, "reason=CAST(x'ff41' AS TEXT)");
  const auto past = store.between(0, unix_ms(kNow.wall), 100, kNow);
  EXPECT_THAT(ids(past.leases), ElementsAre(1, 3, 9));
  EXPECT_EQ(past.damaged, 6U);
}

TEST_F(StoreTest, ASecondBrokerIsRefusedWithTheOwner) {
  const Store store(options);
  EXPECT_THAT(error_of(options), HasSubstr("belong to process " + std::to_string(::getpid())));
}

TEST_F(StoreTest, HoldsSecretsAndIsPrivate) {
  const Store store(options);
  for (const char* name : {"db", "db-wal", "mark", "lock"}) {
    struct stat s {};
    ASSERT_EQ(::stat((options.dir + "/leases." + name).c_str(), &s), 0) << name;
    EXPECT_EQ(s.st_mode & 0777, 0600U) << name;
  }
}

// A mapped file ends the process by SIGBUS when somebody truncates it.
TEST_F(StoreTest, NoFileIsMapped) {
  std::filesystem::create_directories(options.dir);
  std::ofstream(path + "-shm") << "of an earlier version";
  const Store store(options);
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_EQ(text.find(options.dir), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path + "-shm"));
}

TEST_F(StoreTest, AFileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  std::filesystem::create_directories(options.dir);
  const std::string junk(5000, 'x');
  std::ofstream(path) << junk;
  EXPECT_THAT(error_of(options),
              AllOf(HasSubstr("leases.db cannot be used"), HasSubstr("move it")));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), junk);
}

TEST_F(StoreTest, ADamagedFileIsRefused) {
  {
    Store store(options);
    for (LeaseId id = 1; id <= 500; ++id) write(store, {lease(id)});
  }
  const int fd = ::open(path.c_str(), O_WRONLY);
  const std::string junk(4096, 'x');
  for (int page = 3; page < 12; ++page)
    ASSERT_EQ(::pwrite(fd, junk.data(), junk.size(), page * 4096), 4096);
  ::close(fd);
  EXPECT_THAT(error_of(options), HasSubstr("Nothing was changed"));
}

TEST_F(StoreTest, AFileThatLostItsContentIsRefused) {
  write(*std::make_unique<Store>(options), {lease(1)});
  std::filesystem::resize_file(path, 0);
  EXPECT_THAT(error_of(options), HasSubstr("it is empty, though leases were kept in it"));
}

// A row that agrees with its checksum was written so: by a fault, or another program.
TEST_F(StoreTest, ALeaseWhoseMemoryCannotBeCountedIsRefused) {
  const char* const damages[] = {"bytes=-5",
                                 "parts=''",
                                 "agent=''",
                                 "gpus=0",
                                 "id=-7",
                                 "id=9223372036854775807",
                                 "parts=parts || parts",
                                 "state='waiting'",
                                 "state='maybe'"};
  for (const auto* what : damages) {
    write(*std::make_unique<Store>(options), {lease(1)});
    {
      Database db(path, false);
      db.run(std::string("UPDATE leases SET ") + what);
      seal_rows(db);
    }
    EXPECT_THAT(error_of(options), HasSubstr("a lease has ")) << what;
    std::filesystem::remove_all(options.dir);
  }
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder.path + "/file") << "x";
  EXPECT_NE(error_of({folder.path + "/file/state", ""}), "");
}

TEST_F(StoreTest, AWriteThatFailsChangesNothingAndTheNextOneWorks) {
  Store store(options);
  write(store, {lease(1)});
  {
    Database other(path, false);  // another program that has the file locked
    other.run("BEGIN IMMEDIATE");
    EXPECT_THROW(write(store, {lease(2), lease(3)}), Error);
  }
  EXPECT_FALSE(store.find(2, kNow));
  write(store, {lease(2), lease(3)});
  EXPECT_TRUE(store.find(3, kNow));
}

TEST_F(StoreTest, TheLogIsMergedWhileWritingGoesOnAndThenStartsOver) {
  options.checkpoint_pages = 64;
  Store store(options);
  const auto log_size = [&] { return std::filesystem::file_size(path + "-wal"); };
  const auto until = Steady::now() + std::chrono::seconds(20);
  LeaseId id = 0;
  // Each write adds a page to the log; a log of half of that was begun anew.
  while (id < 1000 || (log_size() > id * 4096 / 2 && Steady::now() < until))
    write(store, {lease(++id)});
  EXPECT_LE(log_size(), id * 4096 / 2);
  EXPECT_THAT(store.load(kNow).leases, SizeIs(id));
}

// A timeline that was read without pause kept the log from starting over: it grew without bound.
TEST_F(StoreTest, TheLogStartsOverWhileTheTimelineIsReadWithoutPause) {
  options.checkpoint_pages = 64;
  Store store(options);
  LeaseId id = 0;
  while (id < 2000) write(store, {lease(++id, State::ended)});
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&](std::stop_token stop) {
      while (!stop.stop_requested()) store.between(0, unix_ms(kNow.wall), 2000, kNow);
    });
  const auto log_size = [&] { return std::filesystem::file_size(path + "-wal"); };
  const auto until = Steady::now() + std::chrono::seconds(20);
  std::uintmax_t largest = 0;
  while (id < 40'000 && Steady::now() < until) {
    write(store, {lease(++id, State::ended)});
    largest = std::max(largest, log_size());
  }
  // Each write adds two pages; a log that never starts over has all of them. It may have to wait
  // for a pause of the readers, longer on a busy machine and under a sanitizer.
  EXPECT_LE(largest, id * 8192 / 4 * (kSanitized ? 3 : 2));
}

TEST(StoreInMemory, WorksTheSameAndLeavesNothing) {
  Store store(Store::Options{"", "boot"});
  write(store, {lease(1), lease(2, State::ended)});
  EXPECT_THAT(ids(store.load(kNow).leases), ElementsAre(1));
  EXPECT_THAT(ids(store.between(0, unix_ms(kNow.wall), 9, kNow).leases), ElementsAre(1, 2));
}

}  // namespace
}  // namespace sluice::broker
