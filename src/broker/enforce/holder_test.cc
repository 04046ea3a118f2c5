#include "broker/enforce/holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "broker/broker_for_tests.h"
#include "broker/enforce/card_snapshot.h"
#include "broker/enforce/holder_watch.h"

namespace sluice::broker {
namespace {

const std::string kProc = "/proc";

// A child that waits to be killed; what is left of it goes with this object.
class Child {
 public:
  Child() : pid(::fork()) {
    if (pid == 0) {
      ::signal(SIGTERM, SIG_DFL);
      while (true) ::pause();
    }
    start_time = process_stat(pid, kProc)->start_time;
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    if (!reaped) ::waitpid(pid, nullptr, 0);
  }
  void end(int signal = SIGKILL) { ::kill(pid, signal); }
  int reap() {
    int status = 0;
    reaped = ::waitpid(pid, &status, 0) == pid;
    return status;
  }
  void become_zombie() {
    end();
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  }

  pid_t pid;
  std::uint64_t start_time;
  bool reaped = false;
};

TEST(ParseStat, ANameMayHoldSpacesAndParentheses) {
  const auto stat = parse_stat(
      "4711 (a ) R 1 (b) c) S 17 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 987654 0 0 18\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 17);
  EXPECT_EQ(stat->threads, 3);
  EXPECT_EQ(stat->start_time, 987654U);
}

TEST(ParseStat, AnythingElseIsNoProcess) {
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("4711 (name"));
  EXPECT_FALSE(parse_stat("4711 (name) S 1 2 3"));
  EXPECT_FALSE(parse_stat("4711 (name) SS 17 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 3 0 987654 0"));
  EXPECT_FALSE(parse_stat("4711 (name) S x 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 3 0 987654 0"));
}

TEST(Holder, ALivingProcessIsAlive) {
  const Child child;
  EXPECT_TRUE(is_alive(child.pid, child.start_time, kProc));
}

TEST(Holder, ALaterProcessWithTheSameNumberIsAnother) {
  const Child child;
  EXPECT_FALSE(is_alive(child.pid, child.start_time + 1, kProc));
}

TEST(Holder, AZombieIsDead) {
  Child child;
  child.become_zombie();
  ASSERT_TRUE(process_stat(child.pid, kProc));
  EXPECT_EQ(process_stat(child.pid, kProc)->state, 'Z');
  EXPECT_FALSE(is_alive(child.pid, child.start_time, kProc));
}

TEST(Holder, AProcessWhoseFirstThreadEndedLives) {
  const TemporaryFolder proc;
  std::filesystem::create_directories(proc.path + "/9");
  const std::string rest = " 1 9 9 0 -1 4 1 0 0 0 0 0 0 0 20 0 ";
  std::ofstream(proc.path + "/9/stat") << "9 (server) Z" + rest + "4 0 55 0";
  EXPECT_TRUE(is_alive(9, 55, proc.path));
  std::ofstream(proc.path + "/9/stat") << "9 (server) Z" + rest + "1 0 55 0";
  EXPECT_FALSE(is_alive(9, 55, proc.path));
}

// Processes 30 <- 20 <- 10, of users as given: a shell, a wrapper, and who asks.
class Family {
 public:
  Family(const std::string& shell, const std::string& wrapper) {
    add(10, 1, shell), add(20, 10, wrapper), add(30, 20, "1000\t1000\t1000\t1000");
  }
  bool may_hold(std::int64_t named, std::int64_t uid) const {
    return named_holder(named, {30, 77, uid, 0}, proc_.path).has_value();
  }
  bool is_heard(std::uint64_t start_time) const {
    return named_holder(30, {30, start_time, 1000, 0}, proc_.path).has_value();
  }

 private:
  void add(int pid, int parent, const std::string& users) {
    const auto folder = proc_.path + "/" + std::to_string(pid);
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/stat")
        << pid << " (sh) S " << parent << " 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n";
    std::ofstream(folder + "/status")
        << "Name:\tsh\nPid:\t" << pid << "\nUid:\t" << users << "\nGid:\t0\t0\t0\t0\n";
  }
  TemporaryFolder proc_;
};

TEST(Holder, AnAncestorOfTheSameUserMayBeNamed) {
  const Family all("1000\t1000\t1000\t1000", "0\t0\t0\t0");
  EXPECT_TRUE(all.may_hold(30, 1000));
  EXPECT_TRUE(all.may_hold(10, 1000));
  EXPECT_FALSE(all.may_hold(40, 1000));  // somebody else
  EXPECT_FALSE(all.may_hold(-1, 1000));
}

TEST(Holder, AProcessThatReusesThePidIsNotTheOneThatConnected) {
  const Family all("1000\t1000\t1000\t1000", "1000\t1000\t1000\t1000");
  EXPECT_TRUE(all.is_heard(77));
  EXPECT_FALSE(all.is_heard(76));
}

TEST(Holder, TheProcessOfAnotherUserMayNotBeNamedThoughItIsAnAncestor) {
  const Family all("0\t0\t0\t0", "1000\t0\t0\t0");
  EXPECT_FALSE(all.may_hold(10, 1000));
  EXPECT_FALSE(all.may_hold(20, 1000));  // one that has become root
  EXPECT_TRUE(all.may_hold(10, 0));
}

TEST(Holder, AProcessThatCannotBeSeenIsUnknown) {
  EXPECT_EQ(identified({0, 0, 5, 7}, kProc), (Holder{0, 0, 5, 7}));
  EXPECT_EQ(identified({99999999, 0, 5, 7}, kProc), (Holder{0, 0, 5, 7}));
  const auto self = identified({::getpid(), 0, 5, 7}, kProc);
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_GT(self.start_time, 0U);
}

TEST(Holder, OnlyTheProcessThatHoldsTheLeaseIsAskedToEnd) {
  Child child;
  EXPECT_FALSE(terminate({child.pid, child.start_time + 1, -1, 0}, kProc));
  EXPECT_FALSE(terminate({0, 0, -1, 0}, kProc));
  EXPECT_FALSE(terminate({1, process_stat(1, kProc)->start_time, -1, 0}, kProc));
  const auto self = identified({::getpid(), 0, -1, 0}, kProc);
  EXPECT_FALSE(terminate(self, kProc));
  EXPECT_TRUE(is_alive(child.pid, child.start_time, kProc));

  EXPECT_TRUE(terminate({child.pid, child.start_time, -1, 0}, kProc));
  const int status = child.reap();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

class HolderWatchTest : public testing::Test {
 protected:
  std::promise<ProcessId> died;
  std::future<ProcessId> who = died.get_future();
  HolderWatch watch{kProc, [this](std::int64_t pid, std::uint64_t start) {
                      died.set_value({pid, start});
                    }};
  bool is_notified() { return who.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }
};

TEST_F(HolderWatchTest, ReportsAProcessThatEnds) {
  Child child;
  watch.watch(child.pid, child.start_time);
  child.end();
  ASSERT_TRUE(is_notified());
  EXPECT_EQ(who.get(), (ProcessId{child.pid, child.start_time}));
}

TEST_F(HolderWatchTest, ReportsAProcessThatWasAlreadyGone) {
  const Child child;
  watch.watch(child.pid, child.start_time + 1);  // the one before it
  ASSERT_TRUE(is_notified());
  EXPECT_EQ(who.get(), (ProcessId{child.pid, child.start_time + 1}));
}

TEST_F(HolderWatchTest, WatchesUntilTheLastLeaseIsOver) {
  Child first, second;
  watch.watch(first.pid, first.start_time);
  watch.watch(second.pid, second.start_time);
  watch.watch(second.pid, second.start_time);
  watch.forget(first.pid, first.start_time);
  watch.forget(second.pid, second.start_time);
  first.end();  // nobody asks
  second.end();
  ASSERT_TRUE(is_notified());
  EXPECT_EQ(who.get().first, second.pid);
}

}  // namespace
}  // namespace sluice::broker
