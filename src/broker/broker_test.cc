#include "broker/broker.h"

#include "base/sqlite/sqlite.h"
#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

using Outcome = Ledger::Outcome;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

TEST_F(BrokerTest, AGrantSaysWhereHowMuchAndWhatToExport) {
  open();
  const auto a = ask("scout", 8);
  EXPECT_EQ(a.verdict, Verdict::granted);
  EXPECT_THAT(a.lease.parts, ElementsAre(Part{"GPU-0", 8 * kGb}));
  EXPECT_THAT(a.device_indexes, ElementsAre(0));
  EXPECT_THAT(a.env, Contains(Pair("CUDA_VISIBLE_DEVICES", "GPU-0")));
  EXPECT_THAT(a.env, Contains(Pair("GPU_MEMORY_FRACTION", "0.5000")));
  EXPECT_GT(a.batch.size, 0);
  EXPECT_NE(a.batch.reason, "");
  EXPECT_THAT(types(), ElementsAre("lease_granted"));
}

TEST_F(BrokerTest, SecretsAreInNoEventAndNoTable) {
  open();
  const auto a = ask("scout", 8);
  char secret[17];
  std::snprintf(secret, sizeof secret, "%016llx", static_cast<unsigned long long>(a.lease.secret));
  for (const auto& e : events) EXPECT_EQ(e.json.find(secret), std::string::npos);
  for (const auto& text :
       {broker->leases_json().dump(), broker->timeline_json(0, 1LL << 60).dump()}) {
    EXPECT_EQ(text.find(secret), text.npos);
    EXPECT_EQ(text.find(std::to_string(a.lease.secret)), text.npos);
  }
}

TEST_F(BrokerTest, MemoryMayComeFromTheSettings) {
  host.options.gpu.memory_allocation = {{"scout", 6}};
  open();
  EXPECT_EQ(ask("scout", 0).lease.parts.at(0).bytes, 6 * kGb);
  EXPECT_THROW(ask("nobody", 0), Error);
}

TEST_F(BrokerTest, ADeviceMayBeNamedByIndex) {
  open();
  auto w = lease_request("scout", 1);
  w.device = "1";
  EXPECT_EQ(broker->request(w).lease.parts.at(0).uuid, "GPU-1");
}

TEST_F(BrokerTest, BeforeTheFirstSampleNothingIsPromised) {
  broker = std::make_unique<Broker>(host.options);
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::refused);
  EXPECT_EQ(ask("scout", 1, OnUnavailable::cpu).verdict, Verdict::on_cpu);
}

TEST_F(BrokerTest, ACpuLeaseHidesTheGpusAndCapacityIsReportedLater) {
  open();
  const auto full = ask("analyst", 24);
  ask("other", 16);
  const auto a = ask("scout", 20, OnUnavailable::cpu);
  EXPECT_EQ(a.verdict, Verdict::on_cpu);
  EXPECT_THAT(a.env, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "-1")));
  EXPECT_THAT(a.blocked_by, SizeIs(1));
  EXPECT_EQ(a.blocked_by.at(0).request.agent, "analyst");
  EXPECT_TRUE(a.refusal.may_fit_in);
  broker->release(token(full));
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_THAT(types(), Contains("lease_capacity"));
}

TEST_F(BrokerTest, BadInputChangesNothing) {
  open();
  const auto a = ask("scout", 8);
  const auto before = broker->leases_json().dump();
  EXPECT_THROW(ask("scout", -1), Error);
  EXPECT_THROW(ask("", 1), Error);
  EXPECT_THROW(ask(std::string(10'000'000, 'x'), 1), Error);
  auto forged = token(a);
  forged.secret ^= 1;
  EXPECT_EQ(outcome([&] { broker->renew(forged); }), Outcome::wrong_secret);
  EXPECT_EQ(outcome([&] { broker->release(forged); }), Outcome::wrong_secret);
  EXPECT_EQ(outcome([&] { broker->report(forged, {1, 1, false}); }), Outcome::wrong_secret);
  EXPECT_EQ(outcome([&] { broker->renew({99, 0, 1}); }), Outcome::unknown);
  EXPECT_EQ(broker->leases_json().dump(), before);
}

TEST_F(BrokerTest, AReplayedRenewalIsRefusedWithTheCurrentToken) {
  open();
  const auto a = ask("scout", 8);
  const auto b = broker->renew(token(a));
  EXPECT_EQ(b.lease.renewals, 1U);
  try {
    broker->renew(token(a));
    FAIL() << "renewed twice with one token";
  } catch (const LeaseError& e) {
    EXPECT_EQ(e.outcome(), Outcome::stale);
    ASSERT_TRUE(e.current());
    EXPECT_EQ(e.current()->renewals, 1U);
    EXPECT_EQ(broker->renew(*e.current()).lease.renewals, 2U);
  }
}

// Invariant 3.
TEST_F(BrokerTest, RenewingAnExpiredLeaseFailsAndSaysWhy) {
  open();
  const auto a = ask("scout", 8);
  host.pass(61);
  try {
    broker->renew(token(a));
    FAIL() << "an expired lease came back";
  } catch (const LeaseError& e) {
    EXPECT_EQ(e.outcome(), Outcome::over);
    EXPECT_THAT(e.what(), HasSubstr("expired"));
  }
  EXPECT_THAT(types(), Contains("lease_ended"));
  EXPECT_EQ(outcome([&] { broker->release(token(a)); }), Outcome::over);
  EXPECT_EQ(broker->stats().expired, 1U);
}

// Invariant 4.
TEST_F(BrokerTest, AGpuThatDoesNotAnswerHasNoCapacity) {
  open();
  host.pass(11);
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::refused);
  host.snapshot.gpus[0].readings.clear(device::Metric::memory_used);
  host.snapshot.gpus[1].readings.clear(device::Metric::memory_used);
  broker->observe(host.snapshot);
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::refused);
}

// Invariant 9.
TEST_F(BrokerTest, ClosingTheConnectionReleases) {
  open();
  auto w = lease_request("scout", 8);
  w.holder.connection = 5;
  const auto a = broker->request(w);
  broker->connection_closed(6);
  EXPECT_EQ(broker->status(a.lease.id).lease.state, State::held);
  broker->connection_closed(5);
  EXPECT_EQ(outcome([&] { broker->renew(token(a)); }), Outcome::over);
  EXPECT_EQ(broker->status(a.lease.id).lease.ending, EndReason::released);
}

TEST_F(BrokerTest, FencingTokensGrow) {
  open();
  const auto a = ask("scout", 8);
  broker->release(token(a));
  EXPECT_GT(ask("scout", 1).lease.id, a.lease.id);
}

// Invariant 8.
TEST_F(BrokerTest, ReturnedMemoryCountsUntilASampleShowsItAndTheRestIsReported) {
  host.options.proc = "/proc";
  open();
  auto w = lease_request("scout", 16);
  w.device = "0", w.holder.pid = ::getpid();
  const auto a = broker->request(w);
  host.run(0, ::getpid(), 15 * kGb);
  host.pass(1);
  broker->observe(host.sample());
  broker->release(token(a));
  w.holder = {};
  EXPECT_EQ(broker->request(w).verdict, Verdict::refused);
  host.stop_all(0);
  host.run(0, ::getpid(), 3 * kGb);  // it kept some
  host.pass(1);
  broker->observe(host.sample());
  ASSERT_THAT(types(), Contains("lease_drained"));
  EXPECT_EQ(last_event()["retained_gb"], 3);
  EXPECT_EQ(broker->request(w).verdict, Verdict::refused);  // 13 GB are really free
  w.bytes = 13 * kGb;
  EXPECT_EQ(broker->request(w).verdict, Verdict::granted);
}

TEST_F(BrokerTest, OverUseIsReportedWithTheFirstSampleThatShowsIt) {
  open();
  auto w = lease_request("scout", 4);
  w.holder.pid = ::getpid();
  const auto a = broker->request(w);
  EXPECT_EQ(a.lease.enforcement, Enforcement::observed);
  host.run(0, ::getpid(), 6 * kGb);
  host.pass(1);
  broker->observe(host.sample());
  ASSERT_THAT(types(), Contains("lease_over_use"));
  EXPECT_EQ(last_event()["used_gb"], 6);
  EXPECT_EQ(broker->stats().over_uses, 1U);
  const auto row = [&] { return broker->leases_json()["leases"][0]; };
  EXPECT_EQ(row()["used_gb"], 6);
  EXPECT_EQ(row()["over_use"], 2 * kGb);
  EXPECT_EQ(broker->status(a.lease.id).lease.over_use, 2 * kGb);
  host.run(0, ::getpid(), kGb);  // more of it is no news, but shown
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_EQ(row()["over_use"], 3 * kGb);
  EXPECT_EQ(broker->stats().over_uses, 1U);
  host.stop_all(0);
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_FALSE(row().contains("over_use"));
  EXPECT_THAT(types(), Contains("lease_within_again"));
}

TEST_F(BrokerTest, AYieldingHolderSeesForWhomAndUntilWhenUntilARestart) {
  open();
  auto low = lease_request("low", 24);
  low.priority = Priority::low;
  const auto a = broker->request(low);
  auto urgent = lease_request("urgent", 20, OnUnavailable::wait);
  urgent.priority = Priority::critical, urgent.wait = Seconds(100);
  const auto requester = broker->request(urgent);
  const auto row = broker->leases_json()["leases"][0];
  EXPECT_EQ(row["yield_reason"], "urgent asks for 20.0 GiB with critical priority");
  EXPECT_EQ(row["yields_to"], std::to_string(requester.lease.id));
  EXPECT_GT(row["yield_in_s"], 0);
  EXPECT_EQ(row["yield_reason"], broker->status(a.lease.id).lease.yield_reason);
  open();  // whoever asked was not answered
  EXPECT_FALSE(broker->leases_json()["leases"][0].contains("yield_reason"));
}

TEST_F(BrokerTest, AWaitingRequestReportsItsCurrentObstacles) {
  open();
  const auto large = ask("large", 24), small = ask("small", 16);
  auto w = lease_request("late", 10, OnUnavailable::wait);
  w.wait = Seconds(100);
  const auto requested = broker->request(w);
  ASSERT_THAT(requested.refusal.obstacles, SizeIs(2));
  EXPECT_EQ(requested.refusal.obstacles[1].free, 0u);
  broker->release(token(large));
  ask("other", 1);
  const auto now = broker->status(requested.lease.id);
  EXPECT_THAT(now.refusal.obstacles, SizeIs(2));
  EXPECT_EQ(now.lease.reason, now.refusal.reason);
  EXPECT_THAT(broker->status(token(requested)).refusal.obstacles, IsEmpty());
  EXPECT_THAT(broker->status(small.lease.id).refusal.obstacles, IsEmpty());
}

TEST_F(BrokerTest, UnmanagedProcessesAreListedWithOwnerAndCounted) {
  host.run(0, 1, 10 * kGb);
  open();
  auto w = lease_request("scout", 8);
  w.device = "0";
  EXPECT_EQ(broker->request(w).verdict, Verdict::refused);
  const auto card = broker->leases_json()["cards"][0];
  EXPECT_EQ(card["unmanaged_gb"], 10);
  EXPECT_EQ(card["unmanaged"][0]["pid"], 1);
  EXPECT_EQ(card["unmanaged"][0]["user"], "user");
  EXPECT_EQ(card["unmanaged"][0]["name"], "job");
  EXPECT_EQ(card["unmanaged"][0]["memory_gb"], 10);
  EXPECT_EQ(card["free_gb"], 6);
}

TEST_F(BrokerTest, AProcessMayBeNamedByAnyBytes) {
  host.run(0, 1, kGb);
  host.snapshot.gpus[0].readings.processes[0].name =
      "a\xff\xfe"
      "b";
  open();
  EXPECT_EQ(Json::parse(broker->leases_json().dump())["cards"][0]["unmanaged"][0]["name"], "a??b");
}

TEST_F(BrokerTest, EnforcementRisesAndFallsWithTheEvidence) {
  open();
  auto w = lease_request("scout", 4);
  w.holder.pid = ::getpid();
  const auto id = broker->request(w).lease.id;
  EXPECT_EQ(broker->status(id).lease.enforcement, Enforcement::observed);
  for (auto& g : host.snapshot.gpus)  // WSL: the driver lists processes without their memory
    g.readings.processes = {{1, "x", "y", "compute", std::nullopt, std::nullopt, std::nullopt}};
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_EQ(broker->status(id).lease.enforcement, Enforcement::none);
}

TEST_F(BrokerTest, TheBatchSizeFollowsWhatTheAgentReports) {
  open();
  auto w = lease_request("scout", 8);
  w.model_type = "mini";
  auto a = broker->request(w);
  broker->report(token(a), {16, 2 * kGb, false});
  broker->report(token(a), {32, 3 * kGb, false});
  const auto more = broker->status(token(a)).batch;
  EXPECT_THAT(more.reason, HasSubstr("history"));
  EXPECT_GT(more.size, 32);
  broker->report(token(a), {more.size, 0, true});
  EXPECT_LT(broker->status(token(a)).batch.size, more.size);
  EXPECT_THROW(broker->report(token(a), {0, 1, false}), Error);
  EXPECT_THROW(broker->report(token(a), {1, 0, false}), Error);
  open();  // and the next broker knows
  EXPECT_LT(broker->request(w).batch.size, more.size);
}

TEST_F(BrokerTest, StatusByTokenIsForTheHolderAndOthersSeeNoSecret) {
  open();
  const auto a = ask("scout", 8);
  EXPECT_FALSE(broker->status(a.lease.id).for_holder);
  EXPECT_TRUE(broker->status(token(a)).for_holder);
  auto forged = token(a);
  forged.secret ^= 1;
  EXPECT_EQ(outcome([&] { broker->status(forged); }), Outcome::wrong_secret);
  EXPECT_THROW(broker->status(99), Error);
}

TEST_F(BrokerTest, AnOperatorMayRevokeWithAReason) {
  open();
  const auto a = ask("scout", 8);
  broker->revoke(a.lease.id, "maintenance");
  EXPECT_EQ(broker->status(a.lease.id).lease.ending, EndReason::revoked);
  EXPECT_THAT(last_event()["reason"], "maintenance");
  EXPECT_EQ(outcome([&] { broker->revoke(a.lease.id, "again"); }), Outcome::over);
}

TEST_F(BrokerTest, TheTimelineShowsWhatEndedToo) {
  open();
  const auto a = ask("scout", 8);
  host.pass(5);
  broker->release(token(a));
  host.pass(5);
  const auto now = unix_ms(host.wall());
  const auto rows = broker->timeline_json(now - 9000, now)["leases"];
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0]["end_reason"], "released");
  EXPECT_EQ(rows[0]["ended_ms"], now - 5000);
  EXPECT_THAT(broker->timeline_json(now - 2000, now)["leases"], IsEmpty());
  EXPECT_THROW(broker->timeline_json(2, 1), Error);
}

TEST_F(BrokerTest, TheTimelineSaysHowManyRowsWereDamagedAndShowsTheRest) {
  open();
  const auto a = ask("scout", 8), b = ask("analyst", 8);
  broker->release(token(a));
  Database(folder.path + "/leases.db", false)
      .run("UPDATE leases SET ending='?' WHERE id=" + std::to_string(a.lease.id));
  const auto json = broker->timeline_json(0, 1LL << 60);
  ASSERT_THAT(json["leases"], SizeIs(1));
  EXPECT_EQ(json["leases"][0]["lease_id"], std::to_string(b.lease.id));
  EXPECT_EQ(json["damaged"], 1);
}

TEST_F(BrokerTest, TheGpusOfLeasesAreFollowedUntilTheirMemoryIsBack) {
  open();
  EXPECT_TRUE(broker->leased().empty());
  auto w = lease_request("scout", 4);
  w.holder.pid = ::getpid();
  const auto a = broker->request(w);
  const auto granted = broker->leased();
  ASSERT_EQ(granted.size(), 1u);
  EXPECT_TRUE(granted.contains("GPU-0"));
  broker->renew(token(a));
  EXPECT_EQ(broker->leased(), granted) << "nothing came or went";
  broker->release(token(broker->status(token(a))));
  EXPECT_NE(broker->leased(), granted);
  EXPECT_EQ(broker->leased().size(), 1u) << "who still has memory there is not yet known";
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_TRUE(broker->leased().empty());
}

TEST_F(BrokerTest, EventsMayCallTheBrokerAndComeInOrder) {
  open();
  std::vector<std::string> seen;
  broker->on_event([&](const BrokerEvent& e) {
    seen.push_back(e.type);
    if (e.type == "lease_granted") broker->revoke(e.lease, "at once");
  });
  ask("scout", 1);
  EXPECT_THAT(seen, ElementsAre("lease_granted", "lease_ended"));
  broker->on_event(nullptr);
  ask("scout", 1);
  EXPECT_THAT(seen, SizeIs(2));
}

}  // namespace
}  // namespace sluice::broker
