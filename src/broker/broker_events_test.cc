// Events of leases: complete, in order, and none after the listener is removed.
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/sqlite/sqlite.h"
#include "broker/broker_case_for_tests.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::ElementsAre;
using What = Change::What;

// ---- returns that come by the hundred

TEST(Returns, AreReportedInSlicesEachOnceAndAfterItsEnd) {
  Machine m;
  std::vector<LeaseId> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(m.get(want("a", 1)));
  for (const auto id : ids) m.release(id);
  m.second += 1;
  m.sample();
  EXPECT_EQ(m.free_gib(), 80u) << "they no longer count, reported or not";
  EXPECT_EQ(m.times(What::drained), 16);
  EXPECT_LE(m.ledger.next_tick(), at_second(m.second + 0.01)) << "the rest does not wait long";
  for (int i = 1; i <= 4; ++i) m.tick_at(m.second + 0.01);
  EXPECT_GT(m.ledger.next_tick(), at_second(m.second + 1)) << "nothing is left to tell";
  std::map<LeaseId, std::vector<What>> lives;
  for (const auto& change : m.reported) lives[change.lease].push_back(change.what);
  for (const auto id : ids)
    EXPECT_THAT(lives.at(id), ElementsAre(What::granted, What::ended, What::drained)) << id;
}

TEST(Returns, OneCallThatGrantsComesBetweenTheSlices) {
  Machine m;
  std::vector<LeaseId> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(m.get(want("a", 2)));
  for (const auto id : ids) m.release(id);
  m.second += 1;
  m.sample();
  m.get(want("b", 80));
  EXPECT_EQ(m.reported.back().what, What::granted);
  for (int i = 0; i < 4; ++i) m.tick_at(m.second + 0.01);
  EXPECT_EQ(m.times(What::drained), 40);
}

// ---- what is said about one lease

TEST_F(BrokerTest, OnlyTheResponseToAWaitingRequestIsADecision) {
  open();
  const auto before = broker->decisions();
  const auto held = ask("holder", 20);
  ask("other", 10);
  auto w = lease_request("late", 20, OnUnavailable::wait);
  w.wait = Seconds(30);
  broker->request(w);
  EXPECT_EQ(broker->decisions(), before);
  host.pass(1);
  broker->release(token(held));
  EXPECT_EQ(broker->decisions(), before);
  host.pass(1);
  broker->observe(host.sample());  // shows the capacity
  EXPECT_EQ(broker->decisions(), before + 1);
  broker->request(w);
  host.pass(31);
  broker->tick();  // the wait is over
  EXPECT_EQ(broker->decisions(), before + 2);
}

TEST_F(BrokerTest, ALeaseGrantedAndYieldingInTheSamePassWasHeldWhenGranted) {
  host.options.config.ageing_s = 1;
  open();
  auto full = lease_request("full", 24), other = lease_request("other", 16);
  full.priority = other.priority = Priority::critical;
  const auto on_large = broker->request(full);
  broker->request(other);
  auto low = lease_request("low", 20, OnUnavailable::wait), high = low;
  low.priority = Priority::low, high.priority = Priority::high;
  low.wait = high.wait = Seconds(1000);
  const auto first = broker->request(low);
  host.pass(30);  // it goes first now, whoever comes
  broker->request(high);
  host.pass(11);  // and that one may ask again who would yield to it
  broker->release(token(on_large));
  events.clear();
  host.pass(0.1);
  broker->observe(host.sample());
  std::vector<std::string> reported;
  for (const auto& e : events)
    if (e.lease == first.lease.id)
      reported.push_back(e.type + " " + Json::parse(e.json)["state"].get<std::string>());
  EXPECT_THAT(reported, ElementsAre("lease_granted held", "lease_yield yielding"));
}

// ---- many at once, on the broker's own threads

struct Busy {
  Busy() {
    host.options.threads = true;
    host.options.config.yield_within_s = 0.2;
    host.options.now = [] { return Steady::now(); };
    host.options.wall = [] { return std::chrono::system_clock::now(); };
    broker = std::make_unique<Broker>(host.options);
  }

  void sample() {
    auto seen = host.snapshot;
    seen.sequence = 0;
    for (auto& g : seen.gpus) {
      g.readings.set(device::Metric::memory_used, 0, Steady::now());
      g.sampled_at = Steady::now();
    }
    broker->observe(seen);
  }

  // One life: wait for capacity, use it until it is over or requested back.
  void live(std::mt19937& rng) const {
    const auto gb = static_cast<double>(2 + rng() % 10);
    auto w = lease_request("agent" + std::to_string(rng() % 5), gb, OnUnavailable::wait);
    w.priority = static_cast<Priority>(rng() % 4), w.wait = Seconds(20);
    const auto mine = token(broker->request(w));
    for (unsigned looks = 0, uses = rng() % 8; looks < 20'000; ++looks) {
      const auto state = broker->status(mine).lease.state;
      if (state == State::yielding || (state == State::held && looks >= uses)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    try {
      broker->release(mine);
    } catch (const LeaseError&) {  // it did not yield in time
    }
  }

  Host host{{16, 24}};
  std::unique_ptr<Broker> broker;
};

// "queued granted yield yield_withdrawn ended drained"
bool is_a_life(const std::vector<std::string>& reported) {
  std::string state = "new";
  for (const auto& type : reported) {
    const bool holds = state == "held" || state == "yielding";
    if (type == "lease_queued" && state == "new")
      state = "waiting";
    else if (type == "lease_granted" && (state == "new" || state == "waiting"))
      state = "held";
    else if (type == "lease_yield" && state == "held")
      state = "yielding";
    else if ((type == "lease_yield_withdrawn" || type == "lease_yield_overdue") &&
             state == "yielding")
      state = "held";
    else if (type == "lease_ended" && (holds || state == "waiting"))
      state = holds ? "draining" : "over";
    else if (type == "lease_drained" && state == "draining")
      state = "over";
    else
      return false;
  }
  return state == "over";
}

TEST(BrokerEvents, EveryLeaseIsReportedCompletelyAndInOrderUnderLoad) {
  Busy busy;
  std::mutex mutex;
  std::map<LeaseId, std::vector<std::string>> lives;
  std::size_t over = 0, yields = 0;
  busy.broker->on_event([&](const BrokerEvent& e) {
    const std::lock_guard lock(mutex);
    auto& reported = lives[e.lease];
    reported.push_back(e.type);
    yields += e.type == "lease_yield" ? 1 : 0;
    const bool never_held = std::ranges::find(reported, "lease_granted") == reported.end();
    if (e.type == "lease_drained" || (e.type == "lease_ended" && never_held)) ++over;
  });
  busy.sample();
  constexpr std::size_t kThreads = 6, kLives = 60;
  std::atomic<int> running{kThreads};
  std::vector<std::jthread> clients;
  for (unsigned t = 0; t < kThreads; ++t)
    clients.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (std::size_t i = 0; i < kLives; ++i) busy.live(rng);
      --running;
    });
  const auto is_reported = [&] {
    const std::lock_guard lock(mutex);
    return over == kThreads * kLives;
  };
  const auto until = Steady::now() + std::chrono::seconds(60);
  while ((running > 0 || !is_reported()) && Steady::now() < until) {
    busy.sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  clients.clear();
  busy.broker->on_event(nullptr);
  EXPECT_EQ(lives.size(), kThreads * kLives);
  for (const auto& [id, reported] : lives)
    EXPECT_TRUE(is_a_life(reported)) << id << ": " << testing::PrintToString(reported);
  EXPECT_GT(yields, 0U) << "nobody was asked: the load proves nothing about yields";
}

TEST(BrokerEvents, NoEventIsDeliveredOnceTheListenerIsRemoved) {
  Busy busy;
  std::atomic<bool> listens{true};
  std::atomic<int> reported{0}, late{0};
  busy.broker->on_event([&](const BrokerEvent&) {
    if (!listens) ++late;
    ++reported;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // slower than they come
  });
  busy.sample();
  for (int i = 0; i < 200; ++i) {
    const auto a = busy.broker->request(lease_request("a", 1));
    if (a.verdict == Verdict::granted) busy.broker->release(token(a));
    if (i % 8 == 0) busy.sample();
  }
  busy.broker->on_event(nullptr);
  listens = false;
  const int heard = reported;
  busy.broker->request(lease_request("a", 1));
  busy.broker.reset();
  EXPECT_EQ(reported, heard);
  EXPECT_EQ(late, 0);
}

TEST(BrokerEvents, TheEndOfAnUnstoredRequestIsReportedWhenItIsStored) {
  TemporaryFolder folder;
  Busy busy;
  busy.host.options.state_dir = folder.path;
  busy.broker = std::make_unique<Broker>(busy.host.options);
  std::mutex mutex;
  std::condition_variable_any news;
  std::vector<std::string> reported;
  busy.broker->on_event([&](const BrokerEvent& e) {
    const std::lock_guard lock(mutex);
    reported.push_back(e.type);
    news.notify_all();
  });
  busy.sample();
  {
    Database other(folder.path + "/leases.db", false);
    other.run("BEGIN IMMEDIATE");
    EXPECT_THROW(busy.broker->request(lease_request("a", 1)), Error);
  }
  busy.sample();
  std::unique_lock lock(mutex);
  EXPECT_TRUE(news.wait_for(lock, std::chrono::seconds(10), [&] { return reported.size() >= 2; }));
  ASSERT_GE(reported.size(), 2U);
  EXPECT_EQ(reported[0], "lease_granted");
  EXPECT_EQ(reported[1], "lease_ended");
  lock.unlock();
  busy.broker.reset();  // before what it tells to
}

}  // namespace
}  // namespace sluice::broker
