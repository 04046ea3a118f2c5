// Invariants that lease brokers are known to break, one test each: the ledger's part of them.
// Locks, sockets, processes and clocks belong to the Broker and are tested there.
#include <thread>

#include "base/error.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using What = Change::What;
using Outcome = Ledger::Outcome;

TEST(Invariant, I01_AdmissionSubtractsWhatIsPromisedAlready) {
  Machine m({80});
  int granted = 0;  // eight ask before any sample shows the first one's memory
  for (int i = 0; i < 8; ++i)
    if (m.ask(want("agent", 30)).verdict == Verdict::granted) ++granted;
  EXPECT_EQ(granted, 2);
}

TEST(Invariant, I02_NothingIsCountedTwiceOnceTheHolderHasAllocated) {
  Machine m({80});
  m.get(by(want("a", 40), 5));
  EXPECT_EQ(m.free_gib(), 40u);
  m.process(0, 5, 40);
  m.sample_at(1001);
  EXPECT_EQ(m.free_gib(), 40u);
  m.get(want("b", 40));  // whose pid nobody knows
  m.process(0, 77, 40);
  m.sample_at(1002);
  EXPECT_EQ(m.free_gib(), 0u);
  EXPECT_EQ(m.ledger.capacity("GPU-0", m.now()).promised, 80 * kGiB);
}

TEST(Invariant, I02_ASampleCountsFromWhenItWasTakenNotFromWhenItCame) {
  Machine m({80});
  const auto old = m.cards[0];
  m.second = 1002;
  const auto id = m.get(want("a", 50));
  m.release(id);
  m.second = 1003;  // an empty card, as it was at second 1000
  m.note(m.ledger.observe({&old, 1}, m.now()));
  EXPECT_EQ(m.free_gib(), 30u);
  m.cards[0].sampled_at = at_second(1002.5);
  m.cards[0].used = 10 * kGiB;
  m.note(m.ledger.observe({&m.cards[0], 1}, m.now()));
  EXPECT_EQ(m.free_gib(), 70u);
  m.note(m.ledger.observe({&old, 1}, m.now()));  // overtaken on its way
  EXPECT_EQ(m.free_gib(), 70u);
}

TEST(Invariant, I03_AnExpiredLeaseIsNotRenewed) {
  Machine m({80});
  const auto id = m.get(want("a", 50));
  m.second = 1060;  // its last moment has passed, and no tick has seen it
  EXPECT_EQ(m.renew(id), Outcome::over);
  EXPECT_EQ(m.ledger.find(id)->ending, EndReason::expired);
  m.sample_at(1061);
  EXPECT_EQ(m.renew(id), Outcome::over);
  EXPECT_EQ(m.state(id), State::ended);
  EXPECT_GT(m.get(want("a", 50)), id);  // the fencing token grows
}

TEST(Invariant, I03_AnExpiredLeaseDoesNotComeBackFromTheStore) {
  Machine m({80});
  const auto id = m.get(want("a", 50));
  std::vector<Lease> stored{*m.ledger.find(id)};
  m.ledger = Ledger(Policy{});
  m.ledger.restore(stored, id);
  m.second = 1100;
  EXPECT_EQ(m.renew(id), Outcome::over);
}

TEST(Invariant, I04_AFailedProbeMeansNoCapacity) {
  Machine m({80});
  m.cards[0].sampled_at.reset();
  m.cards[0].used = 0;
  m.note(m.ledger.observe(m.cards, m.now()));
  EXPECT_EQ(m.free_gib(), 0u);
  EXPECT_EQ(m.ask(want("a", 1)).verdict, Verdict::refused);
}

TEST(Invariant, I04_AnOldSampleMeansNoCapacity) {
  Machine m({80});
  m.second = 1010.1;
  EXPECT_EQ(m.free_gib(), 0u);
  EXPECT_THAT(m.ask(want("a", 1)).refusal.reason, testing::HasSubstr("10.1 s old"));
}

TEST(Invariant, I05_TheLossOfAHolderFreesItsLeasesAndStopsItsQueuedRequests) {
  Machine m({80});
  const auto held = m.get(by(want("a", 50), 5)), waiting = m.queue(by(want("a", 60), 5));
  const auto other = m.get(by(want("b", 10), 5, 8));  // the pid was used before
  m.note(m.ledger.holder_died(5, 7, m.now()));
  EXPECT_EQ(m.ledger.find(held)->ending, EndReason::holder_died);
  EXPECT_EQ(m.ledger.find(waiting)->ending, EndReason::holder_died);
  EXPECT_EQ(m.state(other), State::held);
  m.sample_at(1001);
  EXPECT_EQ(m.free_gib(), 70u);
  EXPECT_TRUE(m.ledger.waiting().empty());
}

// One authority: what any method says follows from the leases alone, and a second
// ledger made of them says the same.
TEST(Invariant, I06_OneLedgerHoldsAllState) {
  Machine m({80, 24});
  for (int i = 0; i < 5; ++i) m.ask(waits(want("agent" + std::to_string(i), 20)));
  std::vector<Lease> leases;
  for (const auto* lease : m.ledger.live()) leases.push_back(*lease);
  Ledger second{Policy{}};
  second.restore(leases, m.ledger.last_id());
  second.observe(m.cards, m.now());
  EXPECT_EQ(second.broken_invariant(), "");
  for (const auto& card : m.cards) {
    EXPECT_EQ(second.capacity(card.uuid, m.now()).free, m.ledger.capacity(card.uuid, m.now()).free);
    EXPECT_EQ(second.promises(card.uuid).size(), m.ledger.promises(card.uuid).size());
  }
  ASSERT_EQ(second.waiting().size(), m.ledger.waiting().size());
}

// The ledger calls no driver: it decides at once from the samples it was given.
TEST(Invariant, I07_NoResponseWaitsForAProbe) {
  Ledger ledger{Policy{}};
  Changes changes;
  const auto response = ledger.request(want("a", 8), 1, at_second(1), changes);
  EXPECT_EQ(response.verdict, Verdict::refused);  // rather than look
  EXPECT_THAT(response.refusal.reason, testing::HasSubstr("no GPU has been seen yet"));
}

TEST(Invariant, I08_AReturnCountsOnceASampleConfirmsItAndReportsRetainedMemory) {
  Machine m({80});
  const auto id = m.get(by(want("a", 50), 5));
  m.process(0, 5, 50);
  m.sample_at(1001);
  m.release(id);
  EXPECT_EQ(m.free_gib(), 30u);
  m.process(0, 5, 12);  // it kept some
  m.sample_at(1002);
  EXPECT_EQ(m.times(What::drained, id), 1);
  EXPECT_EQ(m.last(What::drained).bytes, 12 * kGiB);
  EXPECT_EQ(m.free_gib(), 68u);
  EXPECT_EQ(m.ledger.capacity("GPU-0", m.now()).unmanaged, 12 * kGiB);
}

TEST(Invariant, I08_TheListThatShowsRetainedMemoryMayComeLater) {
  Machine m({80});
  const auto id = m.get(by(want("a", 50), 5));
  m.process(0, 5, 50);
  m.sample_at(1001);
  m.release(id);
  m.has_lists = false;  // samples come, their list stays that of second 1001
  m.cards[0].used = 0;
  m.sample_at(1002);
  EXPECT_EQ(m.free_gib(), 80u);  // the sample is enough for the capacity
  EXPECT_EQ(m.times(What::drained), 0);
  EXPECT_EQ(m.state(id), State::draining);
  m.has_lists = true;
  m.process(0, 5, 0);
  m.sample_at(1010);
  EXPECT_EQ(m.times(What::drained, id), 1);
  EXPECT_EQ(m.last(What::drained).bytes, 0u);
}

TEST(Invariant, I09_ClosingTheConnectionIsRelease) {
  Machine m({80});
  auto bound = want("a", 50);
  bound.holder.connection = 3;
  const auto held = m.get(bound), waiting = m.queue(bound), other = m.get(want("b", 10));
  m.note(m.ledger.connection_closed(3, m.now()));
  EXPECT_EQ(m.ledger.find(held)->ending, EndReason::released);
  EXPECT_EQ(m.ledger.find(waiting)->state, State::ended);
  EXPECT_EQ(m.state(other), State::held);
  m.note(m.ledger.connection_closed(3, m.now()));
  EXPECT_EQ(m.times(What::ended), 2);
}

TEST(Invariant, I09_ALeaseWithoutAConnectionEndsByItsTimeAndItsTokenOnlyOnce) {
  Machine m({80});
  const auto id = m.get(want("a", 50));
  Changes changes;
  EXPECT_EQ(m.ledger.renew(id, 42, 0, m.now(), changes), Outcome::done);
  EXPECT_EQ(m.ledger.renew(id, 42, 0, m.now(), changes), Outcome::stale);
  m.tick_at(1060);
  EXPECT_EQ(m.ledger.find(id)->ending, EndReason::expired);
}

TEST(Invariant, I10_LowPriorityIsServedHoweverManyHigherOnesKeepComing) {
  Machine m({80});
  auto owner = m.get(want("high", 80, Priority::high));
  const auto low = m.queue(want("low", 80, Priority::low));
  double waited = 0;
  for (int i = 0; i < 1000 && m.state(low) == State::waiting; ++i) {
    m.queue(want("high", 80, Priority::high));  // always one more that is ahead
    m.give_back(owner);
    for (const auto* lease : m.ledger.live())
      if (lease->state == State::held) owner = lease->id;
    m.tick_at(m.second + 4), waited = m.second - 1000;
  }
  EXPECT_EQ(m.state(low), State::held);
  EXPECT_LT(waited, 200);  // two steps of priority, 60 s of ageing
}

TEST(Invariant, I11_PreemptionAsksFirstThenSeesThenEnds) {
  Policy policy;
  policy.escalate = Policy::Escalate::terminate;
  Machine m({80}, policy);
  const auto low = m.get(by(want("low", 40, Priority::low), 5));
  m.process(0, 5, 40);
  m.process(0, 99, 30);  // an unmanaged process: never asked to yield, never terminated
  m.sample_at(1001);
  const auto requester = m.queue(want("urgent", 40, Priority::high));
  EXPECT_EQ(m.times(What::yield_requested, low), 1);
  m.tick_at(1010.9);
  EXPECT_EQ(m.times(What::terminate), 0);
  m.tick_at(1011);
  ASSERT_EQ(m.times(What::terminate), 1);
  EXPECT_EQ(m.last(What::terminate).lease, low);
  EXPECT_EQ(m.ledger.find(low)->request.holder.pid, 5);
  m.sample_at(1012);
  EXPECT_EQ(m.state(requester), State::waiting);  // it has not been seen to go
  m.process(0, 5, 0);
  m.sample_at(1013);
  EXPECT_EQ(m.state(requester), State::held);
}

TEST(Invariant, I11_ALeaseWithoutAKnownProcessIsRevokedAndNoProcessIsEnded) {
  Policy policy;
  policy.escalate = Policy::Escalate::terminate;
  Machine m({80}, policy);
  const auto low = m.get(want("low", 80, Priority::low));
  m.queue(want("urgent", 40, Priority::high));
  m.tick_at(1010);
  EXPECT_EQ(m.ledger.find(low)->ending, EndReason::revoked);
  EXPECT_EQ(m.times(What::terminate), 0);
}

}  // namespace
}  // namespace sluice::broker
