// Limits of one peer, however much it requests, and the shares of the others.
#include <algorithm>

#include "base/error.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;

LeaseRequest of(std::string peer, LeaseRequest request) {
  request.peer = std::move(peer);
  return request;
}

LeaseRequest or_cpu(LeaseRequest request, double ttl = 60) {
  request.on_unavailable = OnUnavailable::cpu;
  request.ttl = Seconds(ttl);
  return request;
}

// Requests until one is refused; returns the number of grants and the refusal.
struct Greed {
  std::size_t got = 0;
  std::string reported;
};
Greed take_all(Machine& m, const LeaseRequest& request, std::size_t most = 1000) {
  Greed greed;
  try {
    Changes changes;
    for (; greed.got < most; ++greed.got) m.ledger.request(request, 42, m.now(), changes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::exhausted);
    greed.reported = e.reason();
  }
  EXPECT_EQ(m.ledger.broken_invariant(), "");
  return greed;
}

Policy small() {
  Policy policy;
  policy.max_leases = 400, policy.max_waiting = 40;
  policy.max_leases_per_peer = 30, policy.max_waiting_per_peer = 10;
  policy.max_cpu_leases_per_peer = 20, policy.max_leases_per_agent = 1000;
  return policy;
}

TEST(LedgerLimits, APeerHoldsNoMoreThanItsLimitAndTheErrorNamesIt) {
  Machine m({80}, small());
  const auto greedy = take_all(m, of("uid:1", want("a", 1)));
  EXPECT_EQ(greedy.got, 30u);
  EXPECT_THAT(greedy.reported, HasSubstr("uid:1 holds or waits for 30 leases"));
  EXPECT_THAT(greedy.reported, HasSubstr("broker.max_leases_per_peer"));
  m.get(of("uid:2", want("a", 1)));
  m.get(want("in this process", 1));
}

TEST(LedgerLimits, WaitingRequestsCountAsHeldSinceTheyMayBeGranted) {
  Machine m({80}, small());
  take_all(m, of("uid:1", want("a", 4)), 20);  // the card is full
  const auto waiting = take_all(m, of("uid:1", waits(want("a", 4))));
  EXPECT_EQ(waiting.got, 10u);
  EXPECT_THAT(waiting.reported, HasSubstr("uid:1 holds or waits for 30 leases"));
}

TEST(LedgerLimits, APeersWaitersLeaveTheQueueToOthers) {
  Machine m({80}, small());
  m.get(want("big", 80));
  const auto greedy = take_all(m, of("uid:1", waits(want("a", 4))));
  EXPECT_EQ(greedy.got, 10u);
  EXPECT_THAT(greedy.reported, HasSubstr("broker.max_waiting_per_peer"));
  m.queue(of("uid:2", want("a", 4)));
}

TEST(LedgerLimits, LeasesOnTheCpuAreCountedApart) {
  Machine m({80}, small());
  const auto greedy = take_all(m, of("uid:1", or_cpu(want("a", 100))));
  EXPECT_EQ(greedy.got, 20u);
  EXPECT_THAT(greedy.reported, HasSubstr("broker.max_cpu_leases_per_peer"));
  m.get(of("uid:1", or_cpu(want("a", 1))));  // there is capacity for this one on a GPU
  EXPECT_EQ(m.ask(of("uid:2", or_cpu(want("a", 100)))).verdict, Verdict::on_cpu);
}

TEST(LedgerLimits, ALeaseOnTheCpuLivesShortlyUnlessItIsRenewed) {
  Machine m({80});
  const auto id = m.ask(of("uid:1", or_cpu(want("a", 100), 86400))).id;
  EXPECT_EQ(m.ledger.find(id)->request.ttl, Seconds(60));
  m.tick_at(1050);
  EXPECT_EQ(m.renew(id), Ledger::Outcome::done);
  m.tick_at(1109);
  EXPECT_EQ(m.state(id), State::on_cpu);
  m.tick_at(1111);
  EXPECT_EQ(m.state(id), State::ended);
}

TEST(LedgerLimits, AnAgentIsCountedForEachPeerByItself) {
  auto policy = small();
  policy.max_leases_per_agent = 5;
  Machine m({80}, policy);
  const auto greedy = take_all(m, of("uid:1", want("trainer", 1)));
  EXPECT_EQ(greedy.got, 5u);
  EXPECT_THAT(greedy.reported, HasSubstr("agent trainer of uid:1 has 5 leases"));
  m.get(of("uid:1", want("other", 1)));
  m.get(of("uid:2", want("trainer", 1)));  // the name is anyone's choice
}

TEST(LedgerLimits, ReturnedLeasesNoLongerCountForThePeer) {
  auto policy = small();
  policy.max_leases_per_peer = 1;
  Machine m({80}, policy);
  const auto id = m.get(of("uid:1", want("a", 1)));
  EXPECT_THROW(m.ask(of("uid:1", want("a", 1))), Error);
  EXPECT_EQ(m.release(id), Ledger::Outcome::done);
  m.get(of("uid:1", want("a", 1)));
}

// Leases that are given back at once count until a sample was taken: they may not fill the
// ledger, either.
TEST(LedgerLimits, ReturnsOfOnePeerDoNotFillTheLedger) {
  Machine m({80}, small());
  std::size_t rounds = 0;
  auto tiny = of("uid:1", want("a", 1));
  tiny.bytes = 1 << 20;
  try {
    for (; rounds < 1000; ++rounds) m.release(m.get(tiny));
  } catch (const Error& e) {
    EXPECT_THAT(e.reason(), HasSubstr("were just given back"));
  }
  EXPECT_EQ(rounds, 100u);
  m.get(of("uid:2", want("a", 1)));
  m.sample_at(1001);
  m.tick_at(1002);
  m.get(tiny);
}

TEST(LedgerLimits, ManyGreedyPeersLeaveSomethingToOneThatHasNothing) {
  Machine m({80}, small());
  std::size_t got = 0;
  for (int peer = 1; peer <= 15; ++peer) {
    auto request = of("uid:" + std::to_string(peer), want("a", 1));
    request.bytes = 1 << 20;
    got += take_all(m, request).got;
  }
  EXPECT_LT(got, 400u);
  m.get(of("uid:99", want("a", 1)));
}

TEST(LedgerLimits, LeasesFromBeforeARestartCount) {
  Machine m({80}, small());
  EXPECT_EQ(take_all(m, of("uid:1", or_cpu(want("a", 100)))).got, 20u);
  EXPECT_EQ(take_all(m, of("uid:1", want("a", 1))).got, 30u);
  std::vector<Lease> stored;
  for (const auto* lease : m.ledger.live()) stored.push_back(*lease);
  const auto last = m.ledger.last_id();
  m.ledger = Ledger(small());
  m.ledger.restore(stored, last);
  m.sample();
  EXPECT_THROW(m.ask(of("uid:1", want("a", 1))), Error);
  m.get(of("uid:2", want("a", 1)));
  EXPECT_EQ(m.ask(of("uid:2", or_cpu(want("a", 100)))).verdict, Verdict::on_cpu);
}

// An agent's name is anyone's choice: who takes it uses up no quota but its own.
TEST(LedgerLimits, AQuotaIsCountedForEachPeerByItself) {
  Policy policy;
  policy.quotas["scout"] = 20 * kGiB;
  Machine m({80}, policy);
  m.get(of("uid:1", want("scout", 20)));
  const auto own = m.get(of("uid:2", want("scout", 20)));
  const auto refused = m.ask(of("uid:2", want("scout", 1)));
  EXPECT_EQ(refused.refusal.reason,
            "scout of uid:2 may hold 20.0 GiB at once (broker.quotas_gb) and holds 20.0 GiB now; "
            "lease 2 of its own ends in 1 min 0 s unless it is renewed");
  EXPECT_THAT(refused.refusal.blocked_by, testing::ElementsAre(own));
  m.get(want("scout", 20));  // of nobody that is known
  m.give_back(own);
  m.get(of("uid:2", want("scout", 20)));
  EXPECT_THAT(m.ask(of("uid:3", want("scout", 21))).refusal.reason, HasSubstr("broker.quotas_gb"));
}

TEST(LedgerLimits, AQuotaThatIsSetLaterCountsWhatIsHeld) {
  Machine m({80});
  m.get(of("uid:1", want("scout", 15)));
  Policy policy;
  policy.quotas["scout"] = 20 * kGiB;
  m.ledger.set_policy(policy);
  EXPECT_EQ(m.ask(of("uid:1", want("scout", 10))).verdict, Verdict::refused);
  m.get(of("uid:2", want("scout", 10)));
}

TEST(LedgerLimits, APeerHoldsNoMoreMemoryThanItMay) {
  Policy policy;
  policy.max_bytes_per_peer = 30 * kGiB;
  Machine m({80, 80}, policy);
  const auto first = m.get(of("uid:1", want("a", 20)));
  const auto refused = m.ask(of("uid:1", want("b", 20)));
  EXPECT_THAT(refused.refusal.reason,
              HasSubstr("uid:1 may hold 30.0 GiB at once (broker.max_gb_per_peer) and holds 20.0"));
  EXPECT_THAT(refused.refusal.blocked_by, testing::ElementsAre(first));
  const auto waiting = m.queue(of("uid:1", want("b", 20)));
  m.get(of("uid:2", want("a", 30)));
  m.get(want("in this process", 60));
  auto both = of("uid:3", want("a", 16));
  both.gpus = 2;
  EXPECT_THAT(m.ask(both).refusal.reason,
              HasSubstr("2 times 16.0 GiB requested, but uid:3 may hold"));
  m.release(first);
  EXPECT_EQ(m.state(waiting), State::held);  // there was capacity, but for the limit
}

}  // namespace
}  // namespace sluice::broker
