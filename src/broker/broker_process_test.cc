// Holders that die, holders that do not yield, and callers on many threads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

using testing::Contains;

class Process {
 public:
  Process() : pid(::fork()) {
    if (pid == 0)
      while (true) ::pause();
  }
  ~Process() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid;
};

// Invariant 5.
TEST_F(BrokerTest, AHolderThatDiesLosesItsLeasesAndItsPlaceInTheQueue) {
  open();
  auto w = lease_request("scout", 24);
  LeaseResponse held, waiting;
  {
    const Process holder;
    w.holder.pid = holder.pid;
    held = broker->request(w);
    w.on_unavailable = OnUnavailable::wait, w.wait = Seconds(100);
    waiting = broker->request(w);
    broker->tick();
    EXPECT_EQ(broker->status(held.lease.id).verdict, Verdict::granted);
  }
  broker->tick();
  EXPECT_EQ(broker->status(held.lease.id).lease.ending, EndReason::holder_died);
  EXPECT_EQ(broker->status(waiting.lease.id).lease.ending, EndReason::holder_died);
  EXPECT_EQ(broker->stats().holders_died, 2U);
}

TEST_F(BrokerTest, AHolderThatDiedWhileTheBrokerWasDownIsDetected) {
  open();
  auto w = lease_request("scout", 8);
  LeaseId id = 0;
  {
    const Process holder;
    w.holder.pid = holder.pid;
    id = broker->request(w).lease.id;
    broker.reset();
  }
  open();
  broker->tick();
  EXPECT_EQ(broker->status(id).lease.ending, EndReason::holder_died);
}

// Its connection went with the broker; its process is what is left to know it by.
TEST_F(BrokerTest, ABoundLeaseEndsWithItsProcessAfterARestart) {
  auto w = lease_request("scout", 8);
  LeaseId id = 0;
  {
    const Process holder;  // first: it has no part in the store's lock
    open();
    w.holder.pid = holder.pid, w.holder.connection = 5, w.bound = true;
    id = broker->request(w).lease.id;
    open();
    broker->tick();
    EXPECT_EQ(broker->status(id).lease.state, State::held);
    broker->connection_closed(5);  // another's now: numbers begin anew
    EXPECT_EQ(broker->status(id).lease.state, State::held);
  }
  broker->tick();
  EXPECT_EQ(broker->status(id).lease.ending, EndReason::holder_died);
}

// Invariant 11.
TEST_F(BrokerTest, PreemptionAsksFirstAndOnlyThenEndsTheOneProcessThatHoldsTheLease) {
  host.options.config.escalation = "terminate";
  host.options.config.yield_within_s = 5;
  Process holder, unmanaged_process;
  host.run(0, unmanaged_process.pid, 1 * kGb);
  host.run(1, unmanaged_process.pid, 1 * kGb);
  open();
  auto low = lease_request("low", 22);
  low.priority = Priority::low, low.holder.pid = holder.pid;
  const auto a = broker->request(low);
  ASSERT_EQ(a.verdict, Verdict::granted);
  auto urgent = lease_request("urgent", 20, OnUnavailable::wait);
  urgent.priority = Priority::critical, urgent.wait = Seconds(100);
  broker->request(urgent);
  ASSERT_THAT(types(), Contains("lease_yield"));
  EXPECT_EQ(broker->status(a.lease.id).lease.state, State::yielding);

  host.pass(4);
  broker->tick();
  EXPECT_EQ(::waitpid(holder.pid, nullptr, WNOHANG), 0);  // still within its time
  host.pass(2);
  broker->tick();
  siginfo_t how{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(holder.pid), &how, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(how.si_status, SIGTERM);
  EXPECT_EQ(::waitpid(unmanaged_process.pid, nullptr, WNOHANG), 0);
}

TEST_F(BrokerTest, NoProcessIsKilledByDefault) {
  host.options.config.yield_within_s = 5;
  const Process holder;
  open();
  auto low = lease_request("low", 24);
  low.priority = Priority::low, low.holder.pid = holder.pid;
  broker->request(low);
  auto urgent = lease_request("urgent", 20, OnUnavailable::wait);
  urgent.priority = Priority::critical, urgent.wait = Seconds(100);
  broker->request(urgent);
  host.pass(6);
  broker->tick();
  EXPECT_THAT(types(), Contains("lease_yield_overdue"));
  EXPECT_EQ(::waitpid(holder.pid, nullptr, WNOHANG), 0);
}

// ---- threads

std::uint64_t promised(const Json& leases, const std::string& uuid) {
  double sum = 0;
  for (const auto& card : leases["cards"])
    if (card["gpu_uuid"] == uuid) sum += card["promised_gb"].get<double>();
  return static_cast<std::uint64_t>(sum);
}

// Invariant 1.
TEST_F(BrokerTest, EightConcurrentThreadsNeverGetMoreThanTheCapacity) {
  open();
  broker->on_event(nullptr);
  std::atomic<int> running{8};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<Token> mine;
      for (int i = 0, got = 0; got < 20; ++i) {
        const auto a = ask("agent" + std::to_string(t), 1 + (i + t) % 5);
        if (a.verdict == Verdict::granted) mine.push_back(token(a)), ++got;
        if (mine.size() > 3 || (a.verdict != Verdict::granted && !mine.empty())) {
          broker->release(mine.back());
          mine.pop_back();
        }
      }
      for (const auto& m : mine) broker->release(m);
      --running;
    });
  while (running > 0) {
    host.pass(0.001);
    broker->observe(host.sample());  // what was given back may be had again
    const auto json = broker->leases_json();
    ASSERT_LE(promised(json, "GPU-0"), 16U);
    ASSERT_LE(promised(json, "GPU-1"), 24U);
  }
  threads.clear();
  host.pass(1);
  broker->observe(host.sample());
  EXPECT_EQ(broker->stats().held, 0U);
  EXPECT_EQ(promised(broker->leases_json(), "GPU-1"), 0U);
}

// Invariant 7: the broker asks no driver; a sampler that hangs costs it its knowledge only.
TEST_F(BrokerTest, RequestsAreAnsweredWhileASamplerHangs) {
  open();
  const auto first = ask("scout", 1);
  EXPECT_EQ(first.verdict, Verdict::granted);
  host.pass(9);  // no sample comes any more
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::granted);
  host.pass(5);
  EXPECT_EQ(ask("scout", 1).verdict, Verdict::refused);  // at once, and honest
  EXPECT_EQ(broker->renew(token(first)).verdict, Verdict::granted);
}

TEST_F(BrokerTest, ALateSnapshotDoesNotReplaceANewerOne) {
  open();
  auto old = host.sample();
  host.pass(1);
  host.used[0] = 15 * kGb;
  broker->observe(host.sample());
  broker->observe(old);
  EXPECT_EQ(broker->leases_json()["cards"][0]["used_gb"], 15);
}

// With its own threads and the real clock: expiry and death are noticed without being asked.
TEST(BrokerThreads, ExpiryAndDeathAreNoticed) {
  Host host{{16}};
  host.options.threads = true;
  host.options.now = [] { return Steady::now(); };
  host.options.wall = [] { return std::chrono::system_clock::now(); };
  Broker broker(host.options);
  std::promise<void> expired, died;
  broker.on_event([&](const BrokerEvent& e) {
    if (e.type != "lease_ended") return;
    const auto ending = Json::parse(e.json)["end_reason"];
    if (ending == "expired") expired.set_value();
    if (ending == "holder_died") died.set_value();
  });
  auto& g = host.snapshot.gpus[0].readings;
  g.set(device::Metric::memory_used, 0, Steady::now());
  broker.observe(host.snapshot);
  auto w = lease_request("short", 1);
  w.ttl = Seconds(1);
  ASSERT_EQ(broker.request(w).verdict, Verdict::granted);
  {
    const Process holder;
    auto h = lease_request("holder", 1);
    h.holder.pid = holder.pid;
    ASSERT_EQ(broker.request(h).verdict, Verdict::granted);
  }
  EXPECT_EQ(died.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(expired.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

}  // namespace
}  // namespace sluice::broker
