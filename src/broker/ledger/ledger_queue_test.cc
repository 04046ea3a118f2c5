// The order of service, and the capacity that is kept for waiting requests.
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::ElementsAre;
using What = Change::What;

// In the order in which they were granted, by the agents' names.
std::vector<std::string> granted(const Machine& m) {
  std::vector<std::string> names;
  for (const auto& change : m.reported)
    if (change.what == What::granted) names.push_back(m.ledger.find(change.lease)->request.agent);
  return names;
}

std::vector<std::string> waiting(const Machine& m) {
  std::vector<std::string> names;
  for (const auto* lease : m.ledger.waiting()) names.push_back(lease->request.agent);
  return names;
}

// All of the card is held by an agent that does not yield.
LeaseId fill(Machine& m) {
  return m.get(want("owner", m.cards[0].total / kGiB, Priority::critical));
}

TEST(Queue, ServesTheHigherPriorityFirst) {
  Machine m({80});
  const auto owner = fill(m);
  m.queue(want("low", 40, Priority::low));
  m.queue(want("critical", 40, Priority::critical));
  m.queue(want("normal", 40));
  m.queue(want("high", 40, Priority::high));
  EXPECT_THAT(waiting(m), ElementsAre("critical", "high", "normal", "low"));
  m.reported.clear();
  m.give_back(owner);
  EXPECT_THAT(granted(m), ElementsAre("critical", "high"));
}

TEST(Queue, CountsWaitingAsPriority) {
  Machine m({80});
  fill(m);
  m.queue(want("low", 80, Priority::low));
  m.tick_at(1010);
  m.queue(want("normal", 80));
  EXPECT_THAT(waiting(m), ElementsAre("normal", "low"));
  m.tick_at(1061);  // it counts in whole steps of 30 s
  m.queue(want("late", 80));
  EXPECT_THAT(waiting(m), ElementsAre("normal", "low", "late"));
}

TEST(Queue, ServesTheAgentThatHeldLessWhereTheScoreIsTheSame) {
  Machine m({80, 80});
  const auto greedy = m.get(want("greedy", 80, Priority::critical));
  const auto other = m.get(want("owner", 80, Priority::critical));
  m.tick_at(1040);
  m.queue(want("greedy", 80));
  m.tick_at(1041);
  m.queue(want("modest", 80));
  EXPECT_THAT(waiting(m), ElementsAre("modest", "greedy"));
  m.give_back(other);
  EXPECT_THAT(waiting(m), ElementsAre("greedy"));
  m.give_back(greedy);
  EXPECT_THAT(waiting(m), ElementsAre());
}

TEST(Queue, LetsASmallRequestPassALargeOneThatDoesNotFit) {
  Machine m({80});
  m.get(want("owner", 60, Priority::critical));
  const auto large = m.queue(want("large", 70));
  const auto small = m.get(want("small", 10));
  EXPECT_EQ(m.state(large), State::waiting);
  EXPECT_EQ(m.state(small), State::held);
}

TEST(Queue, KeepsCapacityForARequestThatWaitedLong) {
  Machine m({80});
  auto long_lived = want("owner", 60, Priority::critical);
  long_lived.ttl = Seconds(3600);
  const auto owner = m.get(long_lived);
  const auto large = m.queue(want("large", 70));
  m.sample_at(1019);
  m.get(want("early", 5));
  m.sample_at(1021);
  const auto response = m.ask(want("late", 5));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_THAT(response.refusal.reason, testing::HasSubstr("kept for others"));
  m.give_back(owner);
  EXPECT_EQ(m.state(large), State::held);
  m.get(want("late", 5));  // beyond its need
}

TEST(Queue, KeepsNoCapacityFromRequestsAhead) {
  Machine m({80});
  auto long_lived = want("owner", 60, Priority::critical);
  long_lived.ttl = Seconds(3600);
  m.get(long_lived);
  m.queue(want("large", 70, Priority::low));
  m.sample_at(1025);
  EXPECT_EQ(m.ask(want("later", 5, Priority::low)).verdict, Verdict::refused);
  m.get(want("urgent", 5, Priority::critical));
}

TEST(Queue, KeepsCapacityOnOneCardOnlyAndFreesItWhenTheWaitIsOver) {
  Machine m({80, 80});
  for (int i = 0; i < 2; ++i) {
    auto owner = want("owner", 60, Priority::critical);
    owner.ttl = Seconds(3600);
    m.get(owner);
  }
  const auto large = m.ask(waits(want("large", 70), 40)).id;
  m.sample_at(1021);
  m.get(want("other", 20));  // on the other card
  EXPECT_EQ(m.ask(want("other", 20)).verdict, Verdict::refused);
  const auto next = m.queue(want("next", 20));
  m.sample_at(1039);
  EXPECT_EQ(m.state(next), State::waiting);
  m.tick_at(1040);
  EXPECT_EQ(m.ledger.find(large)->ending, EndReason::timed_out);
  EXPECT_EQ(m.state(next), State::held);  // at once
}

TEST(Queue, MovesKeptCapacityAwayFromALostCard) {
  Machine m({80, 80});
  for (int i = 0; i < 2; ++i) {
    auto owner = want("owner", 60, Priority::critical);
    owner.ttl = Seconds(3600);
    m.get(owner);
  }
  m.queue(want("large", 70));
  m.sample_at(1021);
  EXPECT_EQ(m.ask(want("x", 5)).verdict, Verdict::granted);  // GPU-1: capacity is kept on GPU-0
  m.cards[0].usable = false;
  m.sample_at(1022);
  EXPECT_EQ(m.ask(want("y", 5)).verdict, Verdict::refused);
}

TEST(Queue, GrantsInOrderWhenASampleShowsCapacity) {
  Machine m({80});
  m.process(0, 9, 80);  // an unmanaged process
  m.sample_at(1001);
  const auto first = m.queue(want("first", 30)), second = m.queue(want("second", 60)),
             third = m.queue(want("third", 40));
  m.process(0, 9, 0);
  m.sample_at(1002);
  EXPECT_EQ(m.state(first), State::held);
  EXPECT_EQ(m.state(second), State::waiting);
  EXPECT_EQ(m.state(third), State::held);
}

LeaseRequest of_peer(std::string peer, LeaseRequest request) {
  request.peer = std::move(peer);
  return request;
}

// A peer that could be served by returning its own leases keeps no capacity from others.
TEST(Queue, NoCapacityIsKeptBehindLeasesOfTheSamePeer) {
  Machine m({80, 80});
  for (const char* device : {"GPU-0", "GPU-1"}) {
    auto tiny = of_peer("uid:1", want("x", 1)), all = of_peer("uid:1", want("x", 80));
    tiny.device = all.device = device;
    tiny.ttl = Seconds(86400), all.priority = Priority::critical;
    m.get(tiny);
    m.queue(all);
  }
  m.sample_at(1030);
  m.sample_at(1040);
  for (int i = 0; i < 2; ++i) m.get(of_peer("uid:2", want("modest", 60)));
  m.queue(of_peer("uid:1", want("y", 70, Priority::critical)));  // fits beside its own lease
  m.sample_at(1070);
  m.get(of_peer("uid:2", want("small", 15)));
  EXPECT_EQ(m.ask(of_peer("uid:2", want("small", 15))).verdict, Verdict::refused);
}

// Many small jobs of a user do not starve a large job of the same user.
TEST(Queue, CapacityBehindLeasesOfTheSamePeerIsKeptFromThatPeer) {
  Policy policy;
  policy.hold_for = Seconds(60);
  Machine m({80}, policy);
  const auto first = m.get(of_peer("uid:1", want("small", 30))),
             second = m.get(of_peer("uid:1", want("small", 30)));
  const auto large = m.ask(waits(of_peer("uid:1", want("large", 70)), 86400)).id;
  for (const double then : {1030.0, 1058.0}) {
    m.sample_at(then);
    EXPECT_EQ(m.ask(of_peer("uid:1", want("small", 10))).verdict, Verdict::refused);
  }
  const auto other = m.get(of_peer("uid:2", want("other", 5)));
  m.renew(first), m.renew(second);
  m.sample_at(1100);
  EXPECT_EQ(m.ask(of_peer("uid:1", want("small", 10))).verdict, Verdict::refused);
  m.release(first), m.release(other);
  m.give_back(second);
  EXPECT_EQ(m.state(large), State::held);
}

TEST(Queue, CapacityIsKeptForAPeerForALimitedTimeOnly) {
  Policy policy;
  policy.hold_for = Seconds(100);
  Machine m({80}, policy);
  auto other = of_peer("uid:3", want("other", 40));
  other.ttl = Seconds(86400);
  m.get(other);
  const auto is_free = [&](double second) {
    m.sample_at(second);
    const auto response = m.ask(of_peer("uid:2", want("modest", 40)));
    if (response.verdict == Verdict::granted) m.give_back(response.id);
    return response.verdict == Verdict::granted;
  };
  m.ask(waits(of_peer("uid:1", want("large", 60, Priority::critical)), 86400));
  m.sample_at(1021);
  EXPECT_FALSE(is_free(1050));
  EXPECT_FALSE(is_free(1100));
  EXPECT_TRUE(is_free(1130));
  m.ask(waits(of_peer("uid:1", want("another", 60, Priority::critical)), 86400));
  EXPECT_TRUE(is_free(1200));  // of the same peer
  m.sample_at(1400);
  EXPECT_FALSE(is_free(1401));  // some of the time has come back
}

TEST(Queue, AnAdministratorGoesBeforeWhatIsKeptForOthers) {
  Machine m({80});
  const auto first = m.get(of_peer("uid:3", want("other", 40)));
  m.queue(of_peer("uid:1", want("large", 60, Priority::critical)));
  m.sample_at(1030);
  EXPECT_EQ(m.ask(of_peer("uid:2", want("late", 40))).verdict, Verdict::refused);
  auto urgent = of_peer("uid:0", want("operator", 40));
  urgent.by_admin = true;
  const auto held = m.get(urgent);
  auto waiting = of_peer("uid:0", want("operator", 80, Priority::low));
  waiting.by_admin = true;
  const auto next = m.queue(waiting);
  m.release(first);
  m.give_back(held);
  EXPECT_EQ(m.state(next), State::waiting);  // what fits comes first
  EXPECT_EQ(m.ledger.waiting().size(), 1u);
}

// Many that wait for several GPUs, and thousands of small leases in their way.
TEST(Queue, APassIsShortHoweverManyRequestsWait) {
  Machine m({80, 80, 80, 80, 80, 80, 80, 80});
  Changes changes;
  auto large = of_peer("uid:1", want("w", 72));
  large.gpus = 8;
  m.get([] {
    auto stays = of_peer("uid:2", want("n", 20));
    stays.device = "GPU-7", stays.ttl = Seconds(86400);
    return stays;
  }());
  for (int i = 0; i < 500; ++i)
    m.ledger.request(waits(large, i % 2 == 0 ? 30 : 3600), Machine::kSecret, m.now(), changes);
  for (int i = 0; i < 3500; ++i) {
    auto tiny = of_peer("uid:1", want("x" + std::to_string(i % 4), 0, Priority::low));
    tiny.bytes = 1 << 20, tiny.ttl = Seconds(86400);
    tiny.device = "GPU-" + std::to_string(i % 8);
    m.ledger.request(tiny, Machine::kSecret, m.now(), changes);
  }
  double longest = 0;
  for (m.second = 1001; m.second < 1060; ++m.second) {
    for (auto& card : m.cards) card.sampled_at = card.processes_at = m.now();
    const auto began = Steady::now();
    m.ledger.tick(m.now());
    m.ledger.observe(m.cards, m.now());
    longest = std::max(longest, seconds_between(began, Steady::now()));
  }
  EXPECT_LT(longest, 0.5);  // it was ten seconds
  EXPECT_EQ(m.ledger.broken_invariant(), "");
}

TEST(Queue, RemainingLeasesExpireInTimeAfterManyEnded) {
  Machine m({80});
  auto brief = want("x", 1);
  brief.ttl = Seconds(86400);
  const auto first = m.get(brief);
  for (int i = 0; i < 5000; ++i) {
    Changes changes;
    const auto id = m.ledger.request(brief, Machine::kSecret, m.now(), changes).id;
    m.ledger.release(id, Machine::kSecret, m.now(), changes);
    if (i % 50 == 0) m.sample_at(m.second + 0.01);
  }
  m.tick_at(999 + 86400);
  EXPECT_EQ(m.state(first), State::held);
  m.tick_at(1000 + 86400);
  EXPECT_NE(m.state(first), State::held);
}

}  // namespace
}  // namespace sluice::broker
