// State of a broker after a restart, and its behavior when it cannot write.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/sqlite/sqlite.h"
#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

using Outcome = Ledger::Outcome;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(BrokerTest, HoldersContinueAfterARestart) {
  open();
  const auto a = ask("scout", 8);
  const auto b = broker->renew(token(a));
  const auto gone = ask("analyst", 1);
  broker->release(token(gone));
  const auto waits = [&] {
    auto w = lease_request("late", 24, OnUnavailable::wait);
    w.wait = Seconds(100);
    ask("other", 20);
    return broker->request(w);
  }();
  open();
  EXPECT_EQ(broker->status(token(a)).lease.parts, a.lease.parts);
  EXPECT_THAT(broker->leases_json()["waiting"], IsEmpty());
  EXPECT_THAT(broker->status(token(waits)).lease.reason, HasSubstr("ask again"));
  EXPECT_EQ(outcome([&] { broker->renew(token(a)); }), Outcome::stale);
  EXPECT_EQ(broker->renew(token(b)).lease.renewals, 2U);
  EXPECT_EQ(outcome([&] { broker->renew(token(gone)); }), Outcome::over);
  EXPECT_EQ(broker->status(gone.lease.id).lease.ending, EndReason::released);
  EXPECT_EQ(ask("scout", 16).verdict, Verdict::refused);  // what is held is still counted
  EXPECT_GT(ask("scout", 1).lease.id, waits.lease.id);
}

TEST_F(BrokerTest, ALeaseThatCouldNotBeRenewedWhileTheBrokerWasDownGetsGrace) {
  open();
  const auto a = ask("scout", 8);
  broker.reset();
  host.pass(600);
  open();
  EXPECT_EQ(broker->renew(token(a)).lease.renewals, 1U);
  broker.reset();
  host.pass(600);
  open();
  host.pass(16);
  broker->tick();
  EXPECT_EQ(broker->status(a.lease.id).lease.ending, EndReason::expired);
}

struct PreemptionTest : BrokerTest {
  // A lease whose holder was asked to make capacity for an urgent one.
  auto one_that_must_yield() {
    auto low = lease_request("low", 20);
    low.priority = Priority::low;
    const auto held = broker->request(low);
    auto urgent = lease_request("urgent", 20, OnUnavailable::wait);
    urgent.priority = Priority::critical, urgent.wait = Seconds(100);
    broker->request(urgent);
    return held;
  }
};

TEST_F(PreemptionTest, ThePreemptionCostIsKnownAfterARestart) {
  open();
  const auto a = one_that_must_yield();
  host.pass(2);
  broker->release(token(a));
  host.pass(1.5);
  broker->observe(host.sample());
  broker.reset();
  host.pass(600);
  open();
  const Json cost{{"seconds", 3.5}, {"memory_gb", 20.0}};
  EXPECT_EQ(to_json(broker->status(a.lease.id), host.now(), host.wall())["yield_cost"], cost);
  const auto now = unix_ms(host.wall());
  const auto rows = broker->timeline_json(now - 3'600'000, now)["leases"];
  EXPECT_EQ(rows.at(0)["lease_id"], std::to_string(a.lease.id));
  EXPECT_EQ(rows.at(0)["yield_cost"], cost);
  EXPECT_FALSE(rows.at(1).contains("yield_cost"));
}

TEST_F(PreemptionTest, CountsHoweverManyLeasesEndedMeanwhile) {
  open();
  const auto a = one_that_must_yield();
  host.pass(2);
  broker->release(token(a));
  for (int i = 0; i < 100; ++i) broker->release(token(ask("small", 0.01)));
  host.pass(1);
  broker->observe(host.sample());
  for (int i = 0; i < 10; ++i) broker->tick();
  EXPECT_EQ(broker->stats().yields_done, 1U);
  EXPECT_EQ(broker->stats().yield_bytes, 20 * kGb);
}

TEST_F(PreemptionTest, AHolderThatNeedNotYieldAfterARestartHasNoCost) {
  open();
  const auto a = one_that_must_yield();
  open();
  broker->release(token(a));
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_FALSE(broker->leases_json()["recent"][0].contains("yield_cost"));
}

TEST_F(BrokerTest, AReportThatCannotBeStoredChangesNoAdvice) {
  open();
  const auto a = ask("scout", 2);
  const auto before = broker->status(a.lease.id).batch;
  Database other(folder.path + "/leases.db", false);
  other.run("BEGIN IMMEDIATE");
  try {
    broker->report(token(a), {1, kGb, true});
    FAIL() << "noted without a store";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unavailable);
    EXPECT_THAT(e.what(), HasSubstr("cannot be stored"));
  }
  EXPECT_EQ(broker->status(a.lease.id).batch.reason, before.reason);
  other.run("ROLLBACK");
  broker->report(token(a), {1, kGb, true});
  EXPECT_NE(broker->status(a.lease.id).batch.reason, before.reason);
}

TEST_F(BrokerTest, WhenTheStoreCannotBeWrittenNothingIsPromised) {
  open();
  const auto a = ask("scout", 2);
  {
    Database other(folder.path + "/leases.db", false);
    other.run("BEGIN IMMEDIATE");
    try {
      ask("analyst", 8);
      FAIL() << "promised without a store";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::unavailable);
      EXPECT_THAT(e.what(), HasSubstr("cannot be stored"));
    }
  }
  host.pass(1);
  broker->observe(host.sample());
  const auto next = ask("analyst", 14);  // nothing of the one before is left
  EXPECT_EQ(next.verdict, Verdict::granted);
  EXPECT_EQ(next.lease.parts.at(0).uuid, "GPU-0");
  EXPECT_EQ(broker->stats().stores_failed, 1U);
  open();
  EXPECT_EQ(broker->status(token(a)).verdict, Verdict::granted);
  EXPECT_EQ(broker->status(token(next)).verdict, Verdict::granted);
  EXPECT_EQ(broker->stats().held, 2U);
}

TEST_F(BrokerTest, RequestsAreRefusedBeforeTheLedgerWhileNothingCanBeStored) {
  open();
  const auto held = ask("scout", 2);
  Database other(folder.path + "/leases.db", false);
  other.run("BEGIN IMMEDIATE");
  EXPECT_THROW(ask("analyst", 1), Error);
  const auto last = broker->stats();
  const auto began = Steady::now();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THROW(ask("analyst", 1), Error);
    EXPECT_THROW(broker->renew(token(held)), Error);
  }
  EXPECT_LT(seconds_between(began, Steady::now()), 5);  // one that tried the disk took 50 ms
  EXPECT_EQ(broker->stats().stores_failed, last.stores_failed);
  EXPECT_EQ(broker->stats().granted, last.granted);
  EXPECT_THAT(broker->store_state().trouble, HasSubstr("locked"));
  other.run("ROLLBACK");
  host.pass(1);
  broker->tick();
  EXPECT_EQ(broker->store_state().trouble, "");
  EXPECT_EQ(broker->renew(token(held)).lease.renewals, 1U);
  EXPECT_EQ(ask("analyst", 1).verdict, Verdict::granted);
}

// A disk that is full for longer than a lease lives.
TEST_F(BrokerTest, NoLeaseExpiresWhileNothingCanBeStored) {
  open();
  auto brief = lease_request("scout", 2);
  brief.ttl = Seconds(2);
  const auto held = broker->request(brief), left = broker->request(brief);
  Database other(folder.path + "/leases.db", false);
  other.run("BEGIN IMMEDIATE");
  EXPECT_THROW(broker->renew(token(held)), StoreUnavailable);
  for (int s = 0; s < 60; ++s) {
    host.pass(1);
    broker->tick();
    EXPECT_THROW(broker->renew(token(held)), StoreUnavailable);
  }
  EXPECT_EQ(broker->stats().held, 2U);
  other.run("ROLLBACK");
  host.pass(1);
  broker->tick();
  host.pass(1);
  broker->tick();
  try {
    broker->renew(token(held));  // the first one was taken in and not answered
    FAIL() << "the token is that of before";
  } catch (const LeaseError& e) {
    ASSERT_EQ(e.outcome(), Outcome::stale);
    EXPECT_EQ(broker->renew(*e.current()).lease.renewals, 2U);
  }
  host.pass(1.5);
  broker->tick();
  EXPECT_EQ(broker->stats().held, 1U);
  EXPECT_EQ(broker->status(left.lease.id).lease.ending, EndReason::expired);
}

TEST_F(BrokerTest, AReadSaysThatTheFilesWereMovedRatherThanThatTheDiskFailed) {
  open();
  const auto file = folder.path + "/leases.db", moved = folder.path + "/moved.db";
  std::filesystem::rename(file, moved);
  const auto refusal = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const StoreUnavailable& e) {
      return e.what();
    } catch (const Error&) {  // the store looks each second
    }
    return "";
  };
  const auto look_up = [&] { (void)broker->status(LeaseId{1}); };
  for (int i = 0; i < 1000 && refusal(look_up).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    host.pass(1);
    broker->tick();
  }
  EXPECT_THAT(refusal(look_up), HasSubstr("leases.db was moved or replaced"));
  EXPECT_THAT(refusal([&] { (void)broker->timeline_json(0, 1, 1, 0); }),
              HasSubstr("leases.db was moved or replaced"));
  std::filesystem::rename(moved, file);
}

TEST_F(BrokerTest, AReturnWhileNothingCanBeStoredEndsTheLeaseAndIsStoredLater) {
  open();
  const auto released = ask("scout", 2), revoked = ask("analyst", 2);
  Database other(folder.path + "/leases.db", false);
  other.run("BEGIN IMMEDIATE");
  EXPECT_THROW(ask("late", 1), StoreUnavailable);
  broker->release(token(released));
  broker->revoke(revoked.lease.id, "the card is to be replaced");
  EXPECT_EQ(outcome([&] { broker->release(token(released)); }), Outcome::over);
  for (int i = 0; i < 2; ++i) {
    for (const auto* one : {&released, &revoked}) {
      const auto shown = to_json(broker->status(one->lease.id), host.now(), host.wall());
      EXPECT_EQ(shown["status"], "ended");
      EXPECT_FALSE(shown.contains("expires_in_s"));
    }
    host.pass(1);
    broker->observe(host.sample());  // now the ledger has forgotten them
  }
  try {
    broker->renew(token(released));
  } catch (const StoreUnavailable& e) {
    EXPECT_THAT(e.what(), testing::Not(HasSubstr("INSERT")));
  }
  EXPECT_EQ(outcome([&] { broker->release(token(revoked)); }), Outcome::over);
  other.run("ROLLBACK");
  host.pass(1);
  broker->tick();
  open();
  EXPECT_EQ(broker->stats().held, 0U);
  EXPECT_EQ(broker->status(released.lease.id).lease.ending, EndReason::released);
  EXPECT_EQ(broker->status(revoked.lease.id).lease.ending, EndReason::revoked);
}

// While this lives no file may be longer than so many bytes: a full disk.
struct LongestFile {
  explicit LongestFile(std::uintmax_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit now{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~LongestFile() { setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before{};
};

TEST_F(BrokerTest, ABrokerStartsWhereNothingCanBeStored) {
  open();
  const auto held = ask("scout", 2);
  for (int i = 0; i < 50; ++i) broker->release(token(ask("analyst", 0.1)));
  const auto killed = folder.path + "/killed";  // as it is found after SIGKILL
  std::filesystem::create_directory(killed);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    if (entry.is_regular_file()) std::filesystem::copy(entry.path(), killed);
  {
    const LongestFile full(std::filesystem::file_size(killed + "/leases.db-wal"));
    host.options.state_dir = killed;
    broker = std::make_unique<Broker>(host.options);
    EXPECT_NE(broker->store_state().trouble, "");
    EXPECT_EQ(broker->stats().held, 1U);
    host.pass(100);
    broker->tick();
  }
  host.pass(1);
  broker->tick();
  EXPECT_EQ(broker->renew(token(held)).lease.renewals, 1U);
  broker.reset();
  broker = std::make_unique<Broker>(host.options);
  EXPECT_EQ(broker->stats().held, 1U);
}

TEST_F(BrokerTest, TheLastLeasesThatEndedWithARestartAreListed) {
  open();
  auto w = lease_request("late", 24, OnUnavailable::wait);
  w.wait = Seconds(100);
  ask("full", 24), ask("full", 16);
  for (int i = 0; i < 100; ++i) broker->request(w);
  open();
  EXPECT_THAT(broker->leases_json()["recent"], SizeIs(64));
}

}  // namespace
}  // namespace sluice::broker
