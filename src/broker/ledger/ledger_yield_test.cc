// Preemption that asks.
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::HasSubstr;
using What = Change::What;

TEST(Yield, AsksTheFewestAndSmallestOfLowerPriorityThatSuffice) {
  Machine m({80});
  const auto tiny = m.get(want("tiny", 5, Priority::low)),
             small = m.get(want("small", 15, Priority::low)),
             large = m.get(want("large", 30, Priority::low)), normal = m.get(want("normal", 25));
  const auto requester = m.queue(want("urgent", 15, Priority::high));  // 5 GiB are free
  EXPECT_EQ(m.state(tiny), State::held);
  EXPECT_EQ(m.state(small), State::yielding);  // 10 missing: neither 5 nor 30
  EXPECT_EQ(m.state(large), State::held);
  EXPECT_EQ(m.state(normal), State::held);
  const auto& lease = *m.ledger.find(small);
  EXPECT_EQ(lease.yields_to, requester);
  EXPECT_EQ(lease.yield_by, at_second(1010));
  EXPECT_THAT(m.last(What::yield_requested).reason, HasSubstr("urgent asks for 15.0 GiB"));
}

TEST(Yield, NeverAsksTheSamePriorityOrAHigherOne) {
  Machine m({80});
  const auto high = m.get(want("a", 40, Priority::high)), same = m.get(want("b", 40));
  m.queue(want("c", 40));
  EXPECT_EQ(m.state(high), State::held);
  EXPECT_EQ(m.state(same), State::held);
  EXPECT_EQ(m.times(What::yield_requested), 0);
}

TEST(Yield, AsksNobodyWhereThatWouldNotBeEnough) {
  Machine m({80});
  m.get(want("low", 20, Priority::low));
  m.get(want("high", 60, Priority::high));
  m.queue(want("c", 40, Priority::high));
  EXPECT_EQ(m.times(What::yield_requested), 0);
}

TEST(Yield, AsksNoMoreWhileARequestIsOpen) {
  Machine m({80});
  for (int i = 0; i < 4; ++i) m.get(want("low", 20, Priority::low));
  m.queue(want("urgent", 20, Priority::high));
  for (int s = 1; s < 9; ++s) m.sample_at(1000 + s);
  EXPECT_EQ(m.times(What::yield_requested), 1);
  m.queue(want("also", 20, Priority::high));  // another one for another request
  EXPECT_EQ(m.times(What::yield_requested), 2);
}

TEST(Yield, GivesTheMemoryToTheRequestThatAsked) {
  Machine m({80});
  const auto low = m.get(want("low", 80, Priority::low));
  const auto older = m.queue(want("older", 80, Priority::low));
  m.sample_at(1030);  // capacity is kept for it by now
  const auto requester = m.queue(want("urgent", 80, Priority::normal));
  EXPECT_EQ(m.state(low), State::yielding);
  EXPECT_EQ(m.ledger.waiting().front()->id, older);  // it waited longer
  m.give_back(low);
  EXPECT_EQ(m.state(requester), State::held);
  EXPECT_EQ(m.state(older), State::waiting);
}

TEST(Yield, KeepsTheFreeMemoryForTheRequestThatAskedToo) {
  Machine m({80});
  m.get(want("low", 60, Priority::low));
  m.queue(want("urgent", 70, Priority::high));  // 20 free and 60 to come
  EXPECT_EQ(m.ask(want("quick", 20)).verdict, Verdict::refused);
  m.get(want("quick", 10));  // beyond what it needs
}

TEST(Yield, EachRequestGetsWhatItsOwnYieldersGaveBack) {
  Machine m({80});
  const auto one = m.get(want("one", 40, Priority::low)),
             two = m.get(want("two", 40, Priority::low));
  const auto first = m.queue(want("first", 40, Priority::high)),
             second = m.queue(want("second", 40, Priority::high));
  const auto& of_second = m.ledger.find(one)->yields_to == second ? one : two;
  m.give_back(of_second);
  EXPECT_EQ(m.state(second), State::held);
  EXPECT_EQ(m.state(first), State::waiting);
}

TEST(Yield, IsWithdrawnWhenTheRequestIsGoneOrServed) {
  Machine m({80});
  const auto low = m.get(want("low", 60, Priority::low)),
             other = m.get(want("other", 20, Priority::high));
  const auto requester = m.queue(want("urgent", 20, Priority::high));
  EXPECT_EQ(m.state(low), State::yielding);
  m.give_back(other);  // capacity from elsewhere
  EXPECT_EQ(m.state(requester), State::held);
  EXPECT_EQ(m.state(low), State::held);
  EXPECT_EQ(m.ledger.find(low)->yields_to, 0u);
  EXPECT_EQ(m.times(What::yield_withdrawn, low), 1);

  const auto next = m.queue(want("next", 20, Priority::high));
  EXPECT_EQ(m.state(low), State::yielding);
  m.release(next);
  EXPECT_EQ(m.state(low), State::held);
  EXPECT_EQ(m.times(What::yield_withdrawn, low), 2);
}

TEST(Yield, IsReportedWhenLateAndOthersAreAskedInstead) {
  Machine m({80});
  const auto low = m.get(want("low", 40, Priority::low)),
             other = m.get(want("other", 40, Priority::normal));
  m.queue(want("urgent", 40, Priority::high));
  m.tick_at(1010);
  EXPECT_EQ(m.times(What::yield_overdue, low), 1);
  EXPECT_EQ(m.state(low), State::held);
  m.sample_at(1011);
  EXPECT_EQ(m.state(low), State::held);  // not again for the same request
  EXPECT_EQ(m.state(other), State::yielding);
}

TEST(Yield, EndsInRevocationWhereTheSettingsSaySo) {
  Policy policy;
  policy.escalate = Policy::Escalate::revoke;
  Machine m({80}, policy);
  const auto low = m.get(by(want("low", 80, Priority::low), 5));
  const auto requester = m.queue(want("urgent", 40, Priority::high));
  m.tick_at(1010);
  EXPECT_EQ(m.ledger.find(low)->ending, EndReason::revoked);
  EXPECT_EQ(m.times(What::terminate), 0);
  EXPECT_EQ(m.times(What::preempted, low), 1);
  EXPECT_THAT(m.last(What::preempted).reason, HasSubstr("urgent"));
  EXPECT_EQ(m.state(requester), State::waiting);  // nothing was seen to fall yet
  m.process(0, 5, 80);                            // and it does not
  m.sample_at(1011);
  EXPECT_EQ(m.state(requester), State::waiting);
  EXPECT_EQ(m.last(What::drained).bytes, 80 * kGiB);
  m.process(0, 5, 0);
  m.sample_at(1012);
  EXPECT_EQ(m.state(requester), State::held);
}

LeaseRequest of_user(LeaseRequest request, std::int64_t uid) {
  request.holder.uid = uid;
  request.peer = "uid:" + std::to_string(uid);
  return request;
}

// On the word of an unprivileged peer nobody loses a lease or a process to another user.
TEST(Yield, EndsInRevocationForTheSameUserAndAdministratorsOnly) {
  for (const auto escalate : {Policy::Escalate::revoke, Policy::Escalate::terminate})
    for (const bool same_user : {false, true})
      for (const bool by_admin : {false, true}) {
        Policy policy;
        policy.escalate = escalate, policy.preempt_other_users = true;
        Machine m({80}, policy);
        const auto low = m.get(of_user(by(want("low", 80, Priority::low), 5), 1000));
        auto urgent = of_user(want("urgent", 40, Priority::critical), same_user ? 1000 : 1001);
        urgent.by_admin = by_admin;
        m.queue(urgent);
        EXPECT_EQ(m.state(low), State::yielding);
        m.tick_at(1010);
        const bool may = same_user || by_admin;
        EXPECT_EQ(m.ledger.find(low)->ending, may ? EndReason::revoked : EndReason::none);
        EXPECT_EQ(m.times(What::yield_overdue, low), may ? 0 : 1);
        EXPECT_EQ(m.times(What::preempted, low), may ? 1 : 0);
        EXPECT_EQ(may && m.last(What::preempted).is_own, same_user);
        EXPECT_EQ(m.times(What::terminate), may && escalate == Policy::Escalate::terminate ? 1 : 0);
      }
}

// Programs end when they are asked to yield, so who may ask is who may end them.
TEST(Yield, IsAskedByTheSameUserAndAdministratorsOnly) {
  for (const bool others_may : {false, true})
    for (const bool same_user : {false, true})
      for (const bool by_admin : {false, true}) {
        Policy policy;
        policy.preempt_other_users = others_may;
        Machine m({80}, policy);
        const auto low = m.get(of_user(want("low", 80, Priority::low), 1000));
        auto urgent = of_user(want("urgent", 40, Priority::critical), same_user ? 1000 : 1001);
        urgent.by_admin = by_admin;
        m.queue(urgent);
        const bool is_asked = others_may || same_user || by_admin;
        EXPECT_EQ(m.state(low), is_asked ? State::yielding : State::held);
        EXPECT_EQ(m.times(What::yield_requested), is_asked ? 1 : 0);
      }
}

TEST(Yield, IsNotAskedByUsersThatAreNotMapped) {
  Machine m({80});
  auto low = want("low", 80, Priority::low), urgent = want("urgent", 40, Priority::critical);
  low.holder.uid = urgent.holder.uid = kUnmappedUid;
  low.peer = urgent.peer = "uid:unmapped";
  const auto held = m.get(low);
  m.queue(urgent);
  EXPECT_EQ(m.state(held), State::held);
}

TEST(Yield, PassesOverTheLeasesOfOtherUsers) {
  Machine m({80});
  const auto other = m.get(of_user(want("other", 40, Priority::low), 1000)),
             own = m.get(of_user(want("own", 40, Priority::normal), 1001));
  m.queue(of_user(want("urgent", 40, Priority::critical), 1001));
  EXPECT_EQ(m.state(other), State::held);
  EXPECT_EQ(m.state(own), State::yielding);
}

TEST(Yield, EndsInNoRevocationForAPeerThatIsNotDistinguished) {
  Policy policy;
  policy.escalate = Policy::Escalate::terminate, policy.preempt_other_users = true;
  Machine m({80}, policy);
  const auto low = m.get(of_user(by(want("low", 80, Priority::low), 5), 1000));
  auto urgent = want("urgent", 40, Priority::critical);
  urgent.peer = "addr:10.0.0.9";
  m.queue(urgent);
  m.tick_at(1010);
  EXPECT_EQ(m.state(low), State::held);
  EXPECT_EQ(m.times(What::terminate), 0);
}

TEST(Yield, KeepsItsRenewalsMeanwhile) {
  Machine m({80});
  const auto low = m.get(want("low", 80, Priority::low));
  m.queue(want("urgent", 40, Priority::high));
  m.tick_at(1005);
  EXPECT_EQ(m.renew(low), Ledger::Outcome::done);
  EXPECT_EQ(m.state(low), State::yielding);
  EXPECT_EQ(m.ledger.next_tick(), at_second(1010));
}

TEST(Yield, IsWithdrawnFromACardThatWasLost) {
  Machine m({80, 80});
  auto owner = want("owner", 80, Priority::critical);
  owner.device = "GPU-1", owner.ttl = Seconds(3600);
  m.get(owner);
  const auto low = m.get(want("low", 80, Priority::low));
  m.queue(want("urgent", 40, Priority::high));
  EXPECT_EQ(m.state(low), State::yielding);
  m.cards[0].usable = false;
  m.sample_at(1001);
  EXPECT_EQ(m.state(low), State::held);
}

TEST(Yield, FreesSeveralGpusForOneLease) {
  Machine m({80, 80, 80});
  std::vector<LeaseId> low;
  for (int i = 0; i < 3; ++i) low.push_back(m.get(want("low", 70, Priority::low)));
  auto request = want("train", 60, Priority::high);
  request.gpus = 2;
  const auto requester = m.queue(request);
  EXPECT_EQ(m.times(What::yield_requested), 2);
  for (const auto id : low)
    if (m.state(id) == State::yielding) m.release(id);
  m.sample_at(1001);
  EXPECT_EQ(m.state(requester), State::held);
}

// A lease of process 5 with 60 GiB, asked to yield and given back at second 1001.
LeaseId one_that_yielded(Machine& m, std::vector<std::uint64_t> used) {
  auto low = by(want("low", 60, Priority::low), 5);
  low.gpus = static_cast<unsigned>(used.size());
  const auto id = m.get(low);
  for (std::size_t i = 0; i < used.size(); ++i) m.process(i, 5, 60);
  m.sample();
  m.queue(want("urgent", 80, Priority::high));
  EXPECT_EQ(m.state(id), State::yielding);
  m.tick_at(1001);
  m.release(id);
  for (std::size_t i = 0; i < used.size(); ++i) m.process(i, 5, used[i]);
  return id;
}

TEST(Yield, RetainedMemoryIsNotCountedAsFreed) {
  Machine m({80});
  const auto id = one_that_yielded(m, {1});
  m.sample_at(1003);
  const auto& ended = *m.ledger.find(id);
  EXPECT_EQ(ended.yield_freed_at, at_second(1003));
  EXPECT_EQ(ended.yield_kept, kGiB);
}

TEST(Yield, AReturnedLeaseWhoseProcessKeepsTheMemoryFreesNothing) {
  Machine m({80});
  const auto id = one_that_yielded(m, {60});
  m.sample_at(1003);
  const auto& ended = *m.ledger.find(id);
  EXPECT_EQ(ended.state, State::ended);
  EXPECT_EQ(ended.yield_freed_at, Instant{});
  EXPECT_EQ(ended.yield_kept, promised(ended));
}

TEST(Yield, TheLastOfSeveralCardsSeenFreeEndsTheCost) {
  Machine m({80, 80});
  const auto id = one_that_yielded(m, {0, 0});
  auto both = m.cards;
  m.second = 1002;
  both[0].sampled_at = both[0].processes_at = m.now();
  m.note(m.ledger.observe(std::vector{both[0]}, m.now()));
  EXPECT_EQ(m.times(What::drained, id), 1);
  EXPECT_EQ(m.ledger.find(id)->yield_freed_at, Instant{});  // not over yet
  m.second = 1006;
  both[1].sampled_at = both[1].processes_at = m.now();
  m.note(m.ledger.observe(std::vector{both[1]}, m.now()));
  EXPECT_EQ(m.ledger.find(id)->yield_freed_at, at_second(1006));
  EXPECT_EQ(m.ledger.find(id)->yield_kept, 0U);
}

// Samples alone show that the card has capacity, not whose memory went.
TEST(Yield, WithoutAProcessListNothingIsReportedAsFreed) {
  Machine m({80});
  const auto id = one_that_yielded(m, {0});
  m.has_lists = false;
  m.sample_at(1003);
  EXPECT_EQ(m.times(What::drained), 0);
  m.sample_at(1062);
  EXPECT_THAT(m.last(What::drained).reason, HasSubstr("is not known"));
  EXPECT_EQ(m.ledger.find(id)->yield_freed_at, Instant{});
}

}  // namespace
}  // namespace sluice::broker
