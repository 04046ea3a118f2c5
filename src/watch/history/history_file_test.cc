// The history's file and what can happen to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "base/sqlite/sqlite.h"
#include "watch/history/history.h"
#include "watch/history/history_for_tests.h"
#include "watch/history/history_row.h"

namespace sluice::watch {
namespace {

namespace fs = std::filesystem;
using device::Metric;
using testing::ElementsAre;
using testing::HasSubstr;

HistoryOptions kept_at(const std::string& path) {
  return {.path = path, .flush_s = 3600, .retry_s = 0};
}

Json power(const History& history, std::int64_t from, std::int64_t to) {
  return history.query(ask("GPU-1", "power", from, to), wall_at(to))["metrics"]["power"];
}

std::vector<std::string> beside(const std::string& path, const std::string& word) {
  std::vector<std::string> found;
  for (const auto& f : fs::directory_iterator(fs::path(path).parent_path()))
    if (f.path().filename().string().find(word) != std::string::npos)
      found.push_back(f.path().string());
  return found;
}

TEST(HistoryFile, SurvivesARestartAndGoesOnInTheSameStep) {
  const Folder folder;
  const auto now = kEpoch;
  for (const double value : {100, 200}) {
    History history(kept_at(folder / "history.db"));
    Feeder(history).put("GPU-1", Metric::power, now, value);
    history.keep("silences", "[1]");
  }
  History history(kept_at(folder / "history.db"));
  EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(150.0));
  EXPECT_EQ(history.kept("silences"), "[1]");
  EXPECT_EQ(history.kept("other"), std::nullopt);
  EXPECT_EQ(history.stats().trouble, "");
}

TEST(HistoryFile, MakesTheFolderItNeeds) {
  const Folder folder;
  { History history(kept_at(folder / "a/b/history.db")); }
  EXPECT_TRUE(fs::exists(folder / "a/b/history.db"));
}

TEST(HistoryFile, WhatIsOlderThanItsStepKeepsIsDeleted) {
  const Folder folder;
  const auto now = kEpoch;
  {
    History history(kept_at(folder / "history.db"));
    Feeder feed(history);
    for (const std::int64_t age : {100 * 86400, 2 * 86400, 2 * 3600, 0})
      feed.put("GPU-1", Metric::power, now - age, 1);
  }
  Database db(folder / "history.db", true);
  EXPECT_EQ(db.number("SELECT count(*) FROM samples WHERE step=1"), 1);
  EXPECT_EQ(db.number("SELECT count(*) FROM samples WHERE step=10"), 2);
  EXPECT_EQ(db.number("SELECT count(*) FROM samples WHERE step=300"), 3);
}

TEST(HistoryFile, ADamagedFileIsMovedAsideAndANewOneBegins) {
  const Folder folder;
  std::ofstream(folder / "history.db") << std::string(20000, 'x');
  History history(kept_at(folder / "history.db"));
  Feeder(history).put("GPU-1", Metric::power, kEpoch, 1);
  EXPECT_TRUE(history.flush());
  EXPECT_EQ(history.stats().trouble, "");
  const auto aside = beside(folder / "history.db", "damaged");
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_EQ(fs::file_size(aside[0]), 20000u);
}

// Early pages hold the tables' roots and are met when the file is opened; late ones
// only hold values and are met by the check after that.
class DamagedPages : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, DamagedPages, testing::Bool());

TEST_P(DamagedPages, AreFoundWhereverTheyAre) {
  const Folder folder;
  const auto now = kEpoch;
  {
    History history(kept_at(folder / "history.db"));
    Feeder feed(history);
    for (int s = 0; s < 3000; ++s) feed.put("GPU-1", Metric::power, now - s, s * 1.1);
  }
  {
    const auto pages = static_cast<int>(fs::file_size(folder / "history.db") / 8192);
    ASSERT_GT(pages, 14);
    std::fstream file(folder / "history.db", std::ios::in | std::ios::out | std::ios::binary);
    const int first = GetParam() ? 4 : pages - 4;
    for (int page = first; page < first + 4; ++page)
      file.seekp(page * 8192) << std::string(8192, '\xee');
  }
  History history(kept_at(folder / "history.db"));
  EXPECT_TRUE(history.flush());
  Feeder(history).put("GPU-1", Metric::power, now, 5);
  EXPECT_TRUE(history.flush());
  EXPECT_EQ(beside(folder / "history.db", "damaged").size(), 1u);
  EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(5.0));
}

TEST(HistoryFile, AFileOfANewerVersionOrOfAnotherProgramIsKeptAside) {
  for (const char* sql : {"PRAGMA user_version=99", "PRAGMA application_id=7"}) {
    const Folder folder;
    { History history(kept_at(folder / "history.db")); }
    Database(folder / "history.db", false).run(sql);
    History history(kept_at(folder / "history.db"));
    EXPECT_EQ(history.stats().trouble, "");
    EXPECT_FALSE(beside(folder / "history.db", "other").empty()) << sql;
  }
}

TEST(HistoryFile, AMetricThisProgramDoesNotKnowStaysInTheFile) {
  const Folder folder;
  const auto now = kEpoch;
  const auto put = [&](double value) {
    History history(kept_at(folder / "history.db"));
    Feeder(history).put("GPU-1", Metric::power, now, value);
  };
  const auto rename = [&](const char* from, const char* to) {
    Database(folder / "history.db", false)
        .run(std::string("DELETE FROM metrics WHERE name='") + to + "'; UPDATE metrics SET name='" +
             to + "' WHERE name='" + from + "'");
  };
  put(100);
  rename("power", "power_of_tomorrow");
  put(300);
  {
    History history(kept_at(folder / "history.db"));
    EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(300.0));
  }
  rename("power_of_tomorrow", "power");
  History history(kept_at(folder / "history.db"));
  EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(100.0));
}

TEST(HistoryFile, AFileInUseByAnotherProcessIsLeftAlone) {
  const Folder folder;
  History first(kept_at(folder / "history.db"));
  History second(kept_at(folder / "history.db"));
  EXPECT_EQ(first.stats().trouble, "");
  EXPECT_THAT(second.stats().trouble, HasSubstr("another sluice"));
  Feeder(second).put("GPU-1", Metric::power, kEpoch, 1);
  EXPECT_TRUE(second.flush());
  EXPECT_THAT(power(second, kEpoch, kEpoch)["mean"], ElementsAre(1.0));
}

TEST(HistoryFile, WithoutAFolderItGoesOnInMemoryAndMovesToTheFileWhenItCan) {
  const Folder folder;
  const auto now = kEpoch;
  std::ofstream(folder / "state") << "a file where the folder should be";
  {
    History history(kept_at(folder / "state/history.db"));
    Feeder feed(history);
    EXPECT_NE(history.stats().trouble, "");
    feed.put("GPU-1", Metric::power, now, 100);
    history.keep("silences", "[2]");
    EXPECT_TRUE(history.flush());
    EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(100.0));
    EXPECT_EQ(history.kept("silences"), "[2]");

    fs::remove(folder / "state");
    feed.put("GPU-1", Metric::power, now, 300);
    EXPECT_TRUE(history.flush());
    EXPECT_EQ(history.stats().trouble, "");
    EXPECT_THAT(power(history, now, now)["mean"], ElementsAre(200.0));
  }
  History again(kept_at(folder / "state/history.db"));
  EXPECT_THAT(power(again, now, now)["mean"], ElementsAre(200.0));
  EXPECT_EQ(again.kept("silences"), "[2]");
}

TEST(HistoryFile, AFullDiskLosesNothingOfThisRun) {
  const Folder folder;
  const auto now = kEpoch;
  auto options = kept_at(folder / "history.db");
  options.max_bytes = 12 * 8192;
  History history(options);
  Feeder feed(history);
  for (int s = 0; s < 1500; ++s) {
    for (const char* device : {"GPU-1", "GPU-2", "GPU-3"})
      feed.put(device, Metric::power, now - 1500 + s, s + 0.123456);
    if (s % 500 == 499) {
      ASSERT_TRUE(history.flush());
    }
  }
  EXPECT_THAT(history.stats().trouble, HasSubstr("full"));
  const auto all = history.query(ask("GPU-3", "power", now - 1500, now - 1, 1500), wall_at(now));
  EXPECT_EQ(all["metrics"]["power"]["t"].size(), 1500u);
  EXPECT_LE(history.stats().file_bytes, 13u * 8192);
}

TEST(HistoryFile, AFullFileTakesNewRowsOnceOldOnesAreDue) {
  const Folder folder;
  auto options = kept_at(folder / "history.db");
  options.max_bytes = 12 * 8192;
  History history(options);
  Feeder feed(history);
  const auto fill = [&](std::int64_t from) {
    for (int s = 0; s < 1500; ++s) {
      for (const char* device : {"GPU-1", "GPU-2", "GPU-3"})
        feed.put(device, Metric::power, from + s, s + 0.123456);
      if (s % 100 == 99) {
        ASSERT_TRUE(history.flush());
      }
    }
  };
  fill(kEpoch);
  ASSERT_THAT(history.stats().trouble, HasSubstr("full"));
  const auto next = kEpoch + 95 * 86400;
  feed.put("GPU-1", Metric::power, next, 1);
  ASSERT_TRUE(history.flush());
  EXPECT_EQ(history.stats().trouble, "");
}

TEST(HistoryFile, ASlowDiskNeverBlocksTheCallerAndDroppedRowsAreCounted) {
  const Folder folder;
  auto options = kept_at(folder / "history.db");
  options.pending_rows = 100;
  History history(options);
  ASSERT_TRUE(history.flush());
  Feeder feed(history);
  const auto now = kEpoch;
  {
    Database other(folder / "history.db", false);
    const Transaction hold(other);  // the writer now waits, as for a disk that hangs
    feed.put("GPU-1", Metric::power, now - 2000, 1);
    EXPECT_FALSE(history.flush(0.01));
    const Instant start = Steady::now();
    for (int s = 1999; s > 0; --s) feed.put("GPU-1", Metric::power, now - s, 1);
    EXPECT_LT(seconds_between(start, Steady::now()), 0.5);
    EXPECT_GT(history.stats().dropped, 1500u);
    EXPECT_NO_THROW(power(history, now - 100, now));
  }
  EXPECT_TRUE(history.flush());
}

TEST(HistoryFile, AMoveFromMemoryToASlowDiskBlocksNoQueryAndCountsNothingTwice) {
  const Folder folder;
  History history(kept_at(folder / "history.db"));
  ASSERT_TRUE(history.flush());
  Feeder feed(history);
  {
    Database other(folder / "history.db", false);
    const Transaction hold(other);
    feed.put("GPU-1", Metric::power, kEpoch, 100);
    ASSERT_TRUE(history.flush());  // gave up on the file: in memory
    ASSERT_NE(history.stats().trouble, "");
    feed.put("GPU-1", Metric::power, kEpoch, 400);
    EXPECT_FALSE(history.flush(0.1));  // on its way to the file, and waits for it
    const Instant start = Steady::now();
    EXPECT_THAT(power(history, kEpoch, kEpoch)["mean"], ElementsAre(250.0));
    EXPECT_LT(seconds_between(start, Steady::now()), 0.5);
  }
  feed.put("GPU-1", Metric::power, kEpoch, 100);
  EXPECT_TRUE(history.flush());
  EXPECT_EQ(history.stats().trouble, "");
  EXPECT_THAT(power(history, kEpoch, kEpoch)["mean"], ElementsAre(200.0));
}

// ---- a crash

// Adds a value a step and says on `out` how far it has stored them, until killed.
[[noreturn]] void write_until_killed(const std::string& path, std::int64_t start, int out) {
  History history(kept_at(path));
  Feeder feed(history);
  for (std::int64_t i = 0;; ++i) {
    feed.put("GPU-1", Metric::power, start + i, static_cast<double>(i));
    if (i % 7 != 6 || !history.flush()) continue;
    if (::write(out, &i, sizeof i) != sizeof i) ::_exit(1);
  }
}

TEST(HistoryFile, AProcessKilledWhileWritingLosesNothingItHadStored) {
  const Folder folder;
  const auto start = kEpoch - 3000;
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) write_until_killed(folder / "history.db", start, pipe_ends[1]);
  ::close(pipe_ends[1]);

  std::int64_t stored = 0;
  while (stored < 200 && ::read(pipe_ends[0], &stored, sizeof stored) == sizeof stored) {
  }
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
  for (std::int64_t more; ::read(pipe_ends[0], &more, sizeof more) == sizeof more;) stored = more;
  ::close(pipe_ends[0]);

  EXPECT_EQ(Database(folder / "history.db", false).text("PRAGMA integrity_check"), "ok");
  History history(kept_at(folder / "history.db"));
  const auto kept = power(history, start, start + stored);
  ASSERT_EQ(kept["t"].size(), static_cast<std::size_t>(stored + 1));
  for (std::size_t i = 0; i < kept["t"].size(); ++i)
    EXPECT_EQ(kept["mean"][i], static_cast<double>(i));
  EXPECT_EQ(history.stats().trouble, "");
  EXPECT_TRUE(beside(folder / "history.db", "damaged").empty());
}

}  // namespace
}  // namespace sluice::watch
