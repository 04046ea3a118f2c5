// Responses: names that fit no card, waits that time out, quotas, reports that do not count, and
// the cost of a preemption.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <chrono>
#include <future>
#include <thread>

#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Outcome = Ledger::Outcome;

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return std::string(e.reason());
  }
  return "it was accepted";
}

TEST_F(BrokerTest, AnIndexRequestedBeforeTheFirstSampleIsResolvedOnceTheCardsAreKnown) {
  broker = std::make_unique<Broker>(host.options);
  auto w = lease_request("early", 1, OnUnavailable::wait);
  w.device = "1", w.wait = Seconds(8);
  const auto requested = broker->request(w);
  EXPECT_EQ(requested.verdict, Verdict::waiting);
  broker->observe(host.sample());
  const auto now = broker->status(token(requested));
  ASSERT_EQ(now.verdict, Verdict::granted);
  EXPECT_EQ(now.lease.parts[0].uuid, "GPU-1");
}

// GPU-0 is still to come: "0" would be GPU-1, and "1" nobody.
TEST_F(BrokerTest, AnIndexWaitsForTheCompleteListAndAUuidWorksAtOnce) {
  broker = std::make_unique<Broker>(host.options);
  auto half = host.sample();
  half.gpus.erase(half.gpus.begin());
  half.has_all_gpus = false;
  broker->observe(half);
  std::vector<LeaseResponse> requested;
  for (const auto* device : {"0", "1", "GPU-0", "GPU-1"}) {
    auto w = lease_request("early", 1, OnUnavailable::wait);
    w.device = device, w.wait = Seconds(8);
    requested.push_back(broker->request(w));
  }
  EXPECT_EQ(requested[0].verdict, Verdict::waiting);
  EXPECT_THAT(requested[0].refusal.reason, HasSubstr("GPU 0 has not been seen yet"));
  EXPECT_EQ(requested[1].verdict, Verdict::waiting);
  EXPECT_EQ(requested[2].verdict, Verdict::waiting);
  ASSERT_EQ(requested[3].verdict, Verdict::granted);
  EXPECT_THAT(requested[3].device_indexes, IsEmpty());
  auto both = lease_request("early", 1, OnUnavailable::wait);
  both.gpus = 2, both.wait = Seconds(8);
  requested.push_back(broker->request(both));
  EXPECT_EQ(requested[4].verdict, Verdict::waiting);  // not refused for good

  broker->observe(host.sample());
  const char* const uuids[] = {"GPU-0", "GPU-1", "GPU-0", "GPU-1"};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto now = broker->status(token(requested[i]));
    ASSERT_EQ(now.verdict, Verdict::granted) << i;
    EXPECT_EQ(now.lease.parts[0].uuid, uuids[i]) << i;
    EXPECT_THAT(now.device_indexes, SizeIs(1));
  }
  EXPECT_EQ(broker->status(token(requested[4])).verdict, Verdict::granted);
}

TEST_F(BrokerTest, ADeviceThatNamesNoCardOrSeveralIsRefused) {
  open();
  auto w = lease_request("scout", 1);
  for (const auto* device : {"GPU-", "99", "0000:99:00.0"}) {
    w.device = device;
    EXPECT_THAT(refusal_of([&] { broker->request(w); }),
                AllOf(HasSubstr(device), HasSubstr("1 GPU-1 (Test 24)")));
  }
  w.device = "GPU-1";
  EXPECT_EQ(broker->request(w).verdict, Verdict::granted);
}

// GPU-abc0 is still to come, and fits "GPU-abc" as well as the one that is there.
TEST_F(BrokerTest, AUuidPrefixNamesNoCardInAnIncompleteList) {
  host.snapshot.gpus[0].gpu.uuid = "GPU-abc0", host.snapshot.gpus[1].gpu.uuid = "GPU-abc1";
  broker = std::make_unique<Broker>(host.options);
  auto half = host.sample();
  half.gpus.erase(half.gpus.begin());
  half.has_all_gpus = false;
  broker->observe(half);
  std::vector<LeaseResponse> requested;
  for (const auto* device : {"GPU-abc", "GPU-abc1", "GPU-abc0"}) {
    auto w = lease_request("early", 1, OnUnavailable::wait);
    w.device = device, w.wait = Seconds(8);
    requested.push_back(broker->request(w));
  }
  EXPECT_EQ(requested[0].verdict, Verdict::waiting);
  EXPECT_THAT(requested[0].refusal.reason, HasSubstr("GPU GPU-abc has not been seen yet"));
  EXPECT_EQ(requested[1].verdict, Verdict::granted);
  EXPECT_EQ(requested[2].verdict, Verdict::waiting);

  broker->observe(host.sample());
  EXPECT_EQ(broker->status(token(requested[2])).lease.parts[0].uuid, "GPU-abc0");
  auto w = lease_request("late", 1);
  w.device = "GPU-abc";
  EXPECT_THAT(refusal_of([&] { broker->request(w); }), HasSubstr("names several GPUs"));
}

TEST_F(BrokerTest, ATimedOutWaitFailsWithItsObstacles) {
  open();
  const auto holder = ask("holder", 20);
  auto w = lease_request("late", 20, OnUnavailable::wait);
  w.wait = Seconds(3);
  const auto requested = broker->request(w);
  host.pass(3);
  broker->observe(host.sample());
  broker->tick();
  const auto json = to_json(broker->status(token(requested)), host.now(), host.wall());
  EXPECT_EQ(json["status"], "failed");
  EXPECT_THAT(json["reason"].get<std::string>(),
              AllOf(HasSubstr("waited 3.0 s"), HasSubstr("20.0 GiB requested")));
  EXPECT_FALSE(json.contains("token"));
  EXPECT_FALSE(json.contains("expires_in_s"));
  EXPECT_THAT(json["obstacles"], SizeIs(2));
  EXPECT_EQ(json["blocked_by"][0]["lease_id"], std::to_string(holder.lease.id));
  EXPECT_GT(json["may_fit_in_s"], 50);
}

TEST_F(BrokerTest, AnAgentOverItsQuotaLearnsWhichOfItsLeasesEndsFirst) {
  host.options.config.quotas_gb["capped"] = 8;
  open();
  const auto own = ask("capped", 6);
  const auto more = ask("capped", 6);
  EXPECT_EQ(more.verdict, Verdict::refused);
  EXPECT_THAT(more.refusal.reason,
              HasSubstr(fmt::format("lease {} of its own ends in 1 min", own.lease.id)));
  ASSERT_THAT(more.blocked_by, SizeIs(1));
  EXPECT_EQ(more.blocked_by[0].id, own.lease.id);
  EXPECT_EQ(more.refusal.may_fit_in, Seconds(60));
}

TEST_F(BrokerTest, AReportCountsOnlyFromTheCurrentHolder) {
  open();
  const auto first = ask("scout", 8);
  const auto renewed = broker->renew(token(first));
  const UsageReport run{16, 2 * kGb, false};
  EXPECT_EQ(outcome([&] { broker->report(token(first), run); }), Outcome::stale);
  broker->report(token(renewed), run);
  broker->release(token(renewed));
  EXPECT_EQ(outcome([&] { broker->report(token(renewed), run); }), Outcome::over);
  const auto expired = ask("scout", 8);
  host.pass(61);
  EXPECT_EQ(outcome([&] { broker->report(token(expired), run); }), Outcome::over);
}

TEST_F(BrokerTest, WithoutReportsTheBatchFollowsTheModelsCompiledPlan) {
  constexpr double kEach = 0.5 * static_cast<double>(kGb);
  host.options.plans = {{"encoder", {1.6 * static_cast<double>(kGb), kEach}}};
  open();
  auto w = lease_request("scout", 8);
  w.model_type = "encoder";
  const auto planned = broker->request(w);
  EXPECT_EQ(planned.batch.size, 12);  // (7.6 GB - 1.6 GB) / 0.5 GB
  EXPECT_THAT(planned.batch.reason, HasSubstr("compiled plan"));
  EXPECT_THAT(ask("encoder", 1).batch.reason, HasSubstr("not one fits"));
  EXPECT_THAT(ask("other", 1).batch.reason, testing::Not(HasSubstr("plan")));
  broker->report(token(planned), {4, 7 * kGb, false});
  EXPECT_THAT(broker->request(w).batch.reason, HasSubstr("its last batch of 4"));
}

TEST_F(BrokerTest, AReportedPeakIsWithinTheCardAndOutOfMemoryNeedsNone) {
  open();
  const auto a = ask("scout", 8);
  EXPECT_THAT(refusal_of([&] {
                broker->report(token(a), {16, 25 * kGb, false});
              }),
              HasSubstr("its GPU has 16.0 GiB"));
  const auto before = broker->status(a.lease.id).batch.size;
  broker->report(token(a), {0, 0, true});  // with the batch that was advised
  EXPECT_LT(broker->status(a.lease.id).batch.size, before);
}

// Host memory says nothing of what a batch takes on a GPU.
TEST_F(BrokerTest, ARunOnTheCpuIsNoFootprint) {
  open();
  ask("other", 24);
  const auto b = ask("scout", 20, OnUnavailable::cpu);
  ASSERT_EQ(b.verdict, Verdict::on_cpu);
  EXPECT_THAT(refusal_of([&] {
                broker->report(token(b), {16, 2 * kGb, false});
              }),
              HasSubstr("holds no GPU memory"));
  EXPECT_EQ(ask("scout", 1).batch.reason.find("history"), std::string::npos);
}

TEST_F(BrokerTest, AReasonIsPlainTextAndCutBetweenCharacters) {
  open();
  const auto a = ask("scout", 1);
  EXPECT_THAT(refusal_of([&] { broker->revoke(a.lease.id, "x\x1b[31m\nred"); }),
              HasSubstr("without control characters"));
  std::string reason = "a";
  while (reason.size() < 1000) reason += "é";
  broker->revoke(a.lease.id, reason);
  EXPECT_EQ(broker->status(a.lease.id).lease.reason, reason.substr(0, 511));
}

TEST_F(BrokerTest, APreemptionIsRecordedWithItsTimeAndFreedBytes) {
  open();
  auto low = lease_request("low", 20);
  low.priority = Priority::low;
  const auto a = broker->request(low);
  auto urgent = lease_request("urgent", 20, OnUnavailable::wait);
  urgent.priority = Priority::critical, urgent.wait = Seconds(100);
  broker->request(urgent);
  host.pass(2);
  broker->release(token(a));
  EXPECT_EQ(broker->stats().yields_done, 0U);  // no sample has shown it free
  host.pass(1);
  broker->observe(host.sample());
  const auto ended = broker->leases_json()["recent"][0];
  EXPECT_EQ(ended["yield_cost"]["seconds"], 3.0);
  EXPECT_EQ(ended["yield_cost"]["memory_gb"], 20.0);
  EXPECT_EQ(broker->stats().yields_done, 1U);
  EXPECT_EQ(broker->stats().yield_bytes, 20 * kGb);
  EXPECT_EQ(broker->stats().yield_s, 3.0);
}

TEST_F(BrokerTest, ASlowedSamplerDoesNotCloseTheCards) {
  open();
  host.snapshot.sampler.interval_scale = 3;
  broker->observe(host.sample());
  host.pass(29);
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::granted);
  host.pass(2);
  EXPECT_THAT(ask("scout", 1).refusal.reason, HasSubstr("31.0 s old"));
}

// /proc hangs, as that of a process in a driver's call may: nobody else waits for it.
TEST_F(BrokerTest, I07_NoResponseWaitsForAProbeThatHangs) {
  open();
  const TemporaryFolder proc;
  const auto stat = proc.path + "/4711/stat";
  ASSERT_EQ(::mkdir((proc.path + "/4711").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo(stat.c_str(), 0600), 0);  // whoever opens it waits for a writer
  broker.reset();
  host.options.proc = proc.path;
  open();
  host.run(0, 4711, kGb);
  const auto sample = host.sample();
  auto probe = std::async(std::launch::async, [&] { broker->observe(sample); });
  const auto began = Steady::now();
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::granted);
  EXPECT_THAT(broker->leases_json()["leases"], SizeIs(1));
  broker->tick();
  EXPECT_LT(seconds_between(began, Steady::now()), 1);
  EXPECT_EQ(probe.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  for (int fd = -1; probe.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready;) {
    fd = ::open(stat.c_str(), O_WRONLY | O_NONBLOCK);
    if (fd >= 0) ::close(fd);
  }
}

TEST_F(BrokerTest, ReportsOfOtherPeersUnderTheSameNameAreNotItsHistory) {
  open();
  auto mine = lease_request("scout", 4), theirs = mine;
  mine.peer = "uid:1", theirs.peer = "uid:2";
  const auto a = broker->request(mine), b = broker->request(theirs);
  for (const int size : {16, 32})
    broker->report(token(b), {size, static_cast<std::uint64_t>(size) * kGb / 16, false});
  EXPECT_THAT(broker->status(token(b)).batch.reason, HasSubstr("history"));
  EXPECT_EQ(broker->status(token(a)).batch.reason, a.batch.reason);
}

TEST_F(BrokerTest, ManyReportsOfOnePeerEvictOnlyItsOwnOldest) {
  open();
  auto mine = lease_request("aaa", 1), theirs = lease_request("many", 1);
  mine.peer = "uid:1", theirs.peer = "uid:2";
  const auto first = broker->request(mine);
  const auto report = [&](const LeaseResponse& response) {
    for (const int size : {16, 32})
      broker->report(token(response), {size, static_cast<std::uint64_t>(size) * kGb / 64, false});
  };
  report(first);
  for (int i = 0; i < 300; ++i) {
    host.pass(0.01);
    theirs.model_type = "model " + std::to_string(i);
    const auto one = broker->request(theirs);
    report(one);
    broker->release(token(one));
    if (i % 10 == 0) broker->observe(host.sample());
  }
  const auto knows = [&](const LeaseRequest& w) {
    const auto response = broker->request(w);
    broker->release(token(response));
    return response.batch.reason.find("history") != std::string::npos;
  };
  for (int round = 0; round < 2; ++round) {
    broker->observe(host.sample());
    EXPECT_TRUE(knows(mine));
    EXPECT_TRUE(knows(theirs));
    auto oldest = theirs;
    oldest.model_type = "model 0";
    EXPECT_FALSE(knows(oldest));
    open();  // and the next broker finds the same
  }
}

}  // namespace
}  // namespace sluice::broker
