#include "broker/ledger/ledger.h"

#include "base/error.h"
#include "broker/ledger/ledger_for_tests.h"

namespace sluice::broker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using What = Change::What;
using Outcome = Ledger::Outcome;

TEST(Ledger, GrantsWhatFitsAndExplainsThePlacement) {
  Machine m({24, 80});
  const auto id = m.get(want("scout", 20));
  const auto& lease = *m.ledger.find(id);
  EXPECT_EQ(lease.state, State::held);
  EXPECT_THAT(lease.parts, ElementsAre(Part{"GPU-0", 20 * kGiB}));
  EXPECT_THAT(lease.reason, HasSubstr("best fit on Card"));
  EXPECT_EQ(lease.expires_at, at_second(1060));
  EXPECT_EQ(m.free_gib(0), 4u);
  EXPECT_EQ(m.times(What::granted, id), 1);
  EXPECT_THAT(m.ledger.promises("GPU-0"), testing::SizeIs(1));
}

TEST(Ledger, RefusesWithTheCheapestBlockingSet) {
  Machine m({80});
  auto brief = want("brief", 30, Priority::low);
  brief.ttl = Seconds(10);
  const auto high = m.get(want("big", 40, Priority::high)), low = m.get(brief);
  const auto response = m.ask(want("late", 20));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_EQ(response.id, 0u);
  EXPECT_THAT(response.refusal.reason,
              HasSubstr("20.0 GiB requested; Card (0000:00:00.0) has 10.0 GiB"));
  EXPECT_THAT(response.refusal.blocked_by, ElementsAre(low));
  EXPECT_EQ(response.refusal.may_fit_in, Seconds(10));
  EXPECT_THAT(m.ask(want("later", 75)).refusal.blocked_by,
              testing::UnorderedElementsAre(low, high));
  EXPECT_EQ(m.ledger.size(), 2u);  // nothing else changed
}

TEST(Ledger, NamesNoBlockerWhereWaitingForASampleIsEnough) {
  Machine m({80});
  const auto id = m.get(want("a", 70));
  m.release(id);
  const auto response = m.ask(want("b", 20));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_THAT(response.refusal.blocked_by, ElementsAre());
  EXPECT_EQ(response.refusal.may_fit_in, Seconds(0));
}

TEST(Ledger, RefusesAtOnceWhatCanNeverFit) {
  Machine m({24});
  const auto response = m.ask(waits(want("scout", 30)));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_THAT(response.refusal.reason, HasSubstr("24.0 GiB in all"));
}

TEST(Ledger, SendsToTheCpuWhatCanNeverFitWhenThatIsRequested) {
  Machine m({24});
  auto request = want("scout", 30);
  request.on_unavailable = OnUnavailable::cpu;
  const auto response = m.ask(request);
  EXPECT_EQ(response.verdict, Verdict::on_cpu);
  EXPECT_THAT(response.refusal.reason, HasSubstr("24.0 GiB in all"));
}

TEST(Ledger, WaitsForTheFirstSampleBeforeItGrantsOrRefuses) {
  Ledger ledger{Policy{}};
  Changes changes;
  EXPECT_EQ(ledger.request(waits(want("a", 8)), 1, at_second(1), changes).verdict,
            Verdict::waiting);
  auto card = card_of(0, 24);
  card.sampled_at = at_second(2);
  const auto reported = ledger.observe({&card, 1}, at_second(2));
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].what, What::granted);
  const auto none = Ledger(Policy{});
}

TEST(Ledger, ReportsCapacityOnceToALeaseOnTheCpu) {
  Machine m({80});
  const auto big = m.get(want("big", 70));
  auto request = want("scout", 20);
  request.on_unavailable = OnUnavailable::cpu;
  const auto response = m.ask(request);
  ASSERT_EQ(response.verdict, Verdict::on_cpu);
  EXPECT_EQ(m.times(What::sent_to_cpu, response.id), 1);
  EXPECT_THAT(response.refusal.blocked_by, ElementsAre(big));
  m.sample_at(1001);
  EXPECT_EQ(m.times(What::capacity), 0);
  m.give_back(big);
  m.sample_at(1003);
  EXPECT_EQ(m.times(What::capacity, response.id), 1);
  const auto again = m.get(want("big", 70));
  m.sample_at(1004);
  m.give_back(again);
  EXPECT_EQ(m.times(What::capacity, response.id), 2);  // once per time
  EXPECT_EQ(m.free_gib(), 80u);                        // it holds nothing
}

TEST(Ledger, OffersTheSameCapacityToOneLeaseOnly) {
  Machine m({80});
  const auto big = m.get(want("big", 70));
  auto request = want("scout", 50);
  request.on_unavailable = OnUnavailable::cpu;
  const auto first = m.ask(request).id, second = m.ask(request).id;
  m.give_back(big);
  EXPECT_EQ(m.times(What::capacity, first), 1);
  EXPECT_EQ(m.times(What::capacity, second), 0);
}

TEST(Ledger, EndsACpuLeaseThatIsNotRenewed) {
  Machine m({24});
  auto request = want("scout", 30);
  request.on_unavailable = OnUnavailable::cpu;
  const auto id = m.ask(request).id;
  m.tick_at(1050);
  EXPECT_EQ(m.renew(id), Outcome::done);
  m.tick_at(1100);
  EXPECT_EQ(m.state(id), State::on_cpu);
  m.tick_at(1111);
  EXPECT_EQ(m.renew(id), Outcome::over);
}

TEST(Ledger, EndsAWaitThatIsOver) {
  Machine m({80});
  m.get(want("big", 70));
  const auto id = m.ask(waits(want("late", 20), 5)).id;
  EXPECT_EQ(m.ledger.next_tick(), at_second(1005));
  m.tick_at(1004.9);
  EXPECT_EQ(m.state(id), State::waiting);
  m.tick_at(1005);
  EXPECT_EQ(m.ledger.find(id)->ending, EndReason::timed_out);  // still found, to be stored
  m.tick_at(1006);
  EXPECT_EQ(m.ledger.find(id), nullptr);
}

TEST(Ledger, RenewalsNeedTheSecretAndTheirNumber) {
  Machine m;
  const auto id = m.get(want("a", 8));
  Changes changes;
  auto& ledger = m.ledger;
  EXPECT_EQ(ledger.renew(id, 41, 0, m.now(), changes), Outcome::wrong_secret);
  EXPECT_EQ(ledger.renew(id + 1, 42, 0, m.now(), changes), Outcome::unknown);
  EXPECT_EQ(ledger.renew(0, 42, 0, m.now(), changes), Outcome::unknown);
  EXPECT_TRUE(changes.empty());
  m.second = 1030;
  EXPECT_EQ(ledger.renew(id, 42, 0, m.now(), changes), Outcome::done);
  EXPECT_EQ(ledger.find(id)->expires_at, at_second(1090));
  m.second = 1040;
  EXPECT_EQ(ledger.renew(id, 42, 0, m.now(), changes), Outcome::stale);  // replayed
  EXPECT_EQ(ledger.find(id)->expires_at, at_second(1090));
  EXPECT_EQ(ledger.renew(id, 42, 1, m.now(), changes), Outcome::done);
  EXPECT_EQ(changes.size(), 2u);
}

TEST(Ledger, ReleaseNeedsTheSecretAndWorksOnce) {
  Machine m;
  const auto id = m.get(want("a", 8));
  Changes changes;
  EXPECT_EQ(m.ledger.release(id, 1, m.now(), changes), Outcome::wrong_secret);
  EXPECT_EQ(m.release(id), Outcome::done);
  EXPECT_EQ(m.release(id), Outcome::over);
  m.sample_at(1001);
  EXPECT_EQ(m.release(id), Outcome::over);
}

TEST(Ledger, AnOperatorRevokesWithoutASecret) {
  Machine m;
  const auto id = m.get(want("a", 8));
  Changes changes;
  EXPECT_EQ(m.ledger.revoke(id, "the card is to be replaced", m.now(), changes), Outcome::done);
  EXPECT_EQ(m.ledger.find(id)->ending, EndReason::revoked);
  EXPECT_EQ(m.ledger.find(id)->reason, "the card is to be replaced");
}

TEST(Ledger, KeepsAnAgentWithinItsQuota) {
  Policy policy;
  policy.quotas["scout"] = 20 * kGiB;
  Machine m({80}, policy);
  const auto first = m.get(want("scout", 15));
  const auto response = m.ask(want("scout", 10));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_EQ(response.refusal.reason,
            "scout may hold 20.0 GiB at once (broker.quotas_gb) and holds 15.0 GiB now; lease 1 of "
            "its own ends in 1 min "
            "0 s unless it is renewed");
  auto less = want("scout", 10);
  less.min_bytes = 2 * kGiB;
  const auto second = m.get(less);
  EXPECT_EQ(m.ledger.find(second)->parts[0].bytes, 5 * kGiB);
  m.get(want("other", 40));
  EXPECT_THAT(m.ask(waits(want("scout", 21))).refusal.reason, HasSubstr("may hold 20.0 GiB"));
  const auto waiting = m.queue(want("scout", 12));
  m.release(first);
  EXPECT_EQ(m.state(waiting), State::held);  // there was capacity, but for the quota
}

TEST(Ledger, KeepsReservedCapacityForItsAgent) {
  Policy policy;
  policy.reservations["vip"] = 30 * kGiB;
  Machine m({80}, policy);
  m.get(want("other", 45));
  const auto response = m.ask(want("other", 10));
  EXPECT_EQ(response.verdict, Verdict::refused);
  EXPECT_THAT(response.refusal.reason, HasSubstr("30.0 GiB of it kept for others"));
  const auto vip = m.get(want("vip", 25));
  m.get(want("other", 5));  // 5 GiB stay reserved
  EXPECT_EQ(m.ask(want("other", 1)).verdict, Verdict::refused);
  m.give_back(vip);
  EXPECT_EQ(m.ask(want("other", 1)).verdict, Verdict::refused);
  policy.reservations.clear();
  m.ledger.set_policy(policy);
  m.get(want("other", 30));
}

TEST(Ledger, CountsALeaseOfAnUnknownProcessBesideEarlierUnmanagedMemory) {
  Machine m({80});
  m.process(0, 9, 60);
  m.sample_at(1001);
  m.get(want("a", 8));
  m.sample_at(1007);
  m.get(want("b", 8));
  m.sample_at(1013);
  EXPECT_EQ(m.ask(want("c", 8)).verdict, Verdict::refused);
  EXPECT_EQ(m.free_gib(), 4u);
}

TEST(Ledger, ReservesBesideUnmanagedProcessesAndMovesWhenTheyGrow) {
  Policy policy;
  policy.reservations["vip"] = 60 * kGiB;
  Machine m({80, 80, 80}, policy);
  m.process(0, 9, 70);  // an unmanaged process on the first
  m.sample_at(1001);
  EXPECT_EQ(m.ask(want("other", 75)).verdict, Verdict::granted);  // where nothing is kept
  EXPECT_EQ(m.ask(want("other", 75)).verdict, Verdict::refused);
  m.process(0, 9, 0), m.process(1, 9, 70);  // it moves onto the home
  m.sample_at(1002);
  EXPECT_EQ(m.ask(want("other", 75)).verdict, Verdict::refused);
  m.get(want("vip", 60));
}

TEST(Ledger, ReservesAcrossCardsWhereNoneIsLargeEnough) {
  Policy policy;
  policy.reservations["vip"] = 60 * kGiB;
  Machine m({40, 40}, policy);
  EXPECT_EQ(m.ask(want("other", 21)).verdict, Verdict::refused);
  m.get(want("other", 20));
}

TEST(Ledger, ReportsOverUseOnceAndItsEnd) {
  Machine m({80});
  const auto id = m.get(by(want("a", 10), 5));
  m.process(0, 5, 10);
  m.sample_at(1001);
  EXPECT_EQ(m.times(What::over_use), 0);
  m.process(0, 5, 14);
  m.sample_at(1002);
  m.sample_at(1003);
  EXPECT_EQ(m.times(What::over_use, id), 1);
  EXPECT_EQ(m.last(What::over_use).bytes, 14 * kGiB);
  EXPECT_EQ(m.last(What::over_use).uuid, "GPU-0");
  EXPECT_EQ(m.free_gib(), 66u);  // what it really uses counts
  m.process(0, 5, 9);
  m.sample_at(1004);
  EXPECT_EQ(m.times(What::within_again, id), 1);
}

TEST(Ledger, KeepsLeasesOfALostCardAndPromisesNothingThere) {
  Machine m({80});
  const auto id = m.get(want("a", 10));
  m.cards[0].usable = false, m.cards[0].why_unusable = "lost since 12:03:11";
  m.sample_at(1001);
  EXPECT_EQ(m.times(What::card_lost, id), 1);
  EXPECT_EQ(m.last(What::card_lost).reason, "lost since 12:03:11");
  EXPECT_EQ(m.state(id), State::held);
  EXPECT_THAT(m.ask(want("b", 1)).refusal.reason, HasSubstr("lost since 12:03:11"));
  EXPECT_EQ(m.renew(id), Outcome::done);
  m.cards[0].usable = true;
  m.sample_at(1002);
  EXPECT_EQ(m.times(What::card_back, id), 1);
  EXPECT_EQ(m.free_gib(), 70u);
}

TEST(Ledger, TakesSeveralGpusInOneLeaseAndDrainsEach) {
  Machine m({40, 24, 40});
  auto request = want("train", 30);
  request.gpus = 2;
  const auto id = m.get(request);
  EXPECT_EQ(m.free_gib(0), 10u);
  EXPECT_EQ(m.free_gib(2), 10u);
  m.release(id);
  m.second = 1001;
  m.cards[0].sampled_at = m.now();
  m.note(m.ledger.observe({&m.cards[0], 1}, m.now()));
  EXPECT_EQ(m.free_gib(0), 40u);
  EXPECT_EQ(m.free_gib(2), 10u);
  EXPECT_EQ(m.state(id), State::draining);
  m.sample_at(1002);
  EXPECT_EQ(m.free_gib(2), 40u);
  m.tick_at(1002);
  EXPECT_EQ(m.state(id), State::ended);
}

TEST(Ledger, RefusesMoreThanItMayKeepAndChangesNothing) {
  Policy policy;
  policy.max_leases = 2, policy.max_waiting = 1;
  Machine m({80}, policy);
  m.get(want("a", 70));
  m.queue(want("b", 70));
  const auto last = m.ledger.last_id();
  EXPECT_THROW(m.ask(want("c", 1)), Error);
  EXPECT_THROW(m.ask(want("", 1)), Error);
  EXPECT_EQ(m.ledger.last_id(), last);
  EXPECT_EQ(m.ledger.size(), 2u);
}

TEST(Ledger, RoundTripsThroughTheStore) {
  Machine m({80, 24});
  auto cpu = want("cpu", 60);
  cpu.on_unavailable = OnUnavailable::cpu;
  const auto held = m.get(by(want("a", 70), 5)), drained = m.get(want("b", 20));
  const auto waiting = m.queue(want("c", 30)), on_cpu = m.ask(cpu).id;
  const auto yielder = m.get(want("d", 4, Priority::low));
  const auto requester = m.queue(want("e", 12, Priority::critical));
  m.release(drained);
  std::vector<Lease> stored;
  for (const auto* lease : m.ledger.live()) stored.push_back(*lease);
  const auto last = m.ledger.last_id();
  m.ledger = Ledger(Policy{});
  m.ledger.restore(stored, last);
  EXPECT_EQ(m.ledger.broken_invariant(), "");
  EXPECT_EQ(m.ask(want("new", 1)).verdict, Verdict::refused);  // no sample yet
  m.second = 1002;
  m.sample();
  EXPECT_EQ(m.times(What::card_back), 0);
  EXPECT_EQ(m.free_gib(0), 10u);
  EXPECT_EQ(m.state(held), State::held);
  EXPECT_EQ(m.state(waiting), State::waiting);
  EXPECT_EQ(m.state(on_cpu), State::on_cpu);
  EXPECT_EQ(m.state(drained), State::ended);
  EXPECT_EQ(m.state(yielder), State::held);
  EXPECT_EQ(m.state(requester), State::held);
  EXPECT_EQ(m.renew(held), Outcome::done);
  EXPECT_GT(m.get(want("new", 1)), last);
}

TEST(Ledger, ARenewalThatCameInTimeIsNotLate) {
  Machine m({80});
  const auto id = m.get(want("a", 8));
  Changes changes;
  EXPECT_EQ(m.ledger.renew(id, Machine::kSecret, 0, at_second(1061), changes, at_second(1059)),
            Outcome::done);  // it waited two seconds for the lock
  EXPECT_EQ(m.ledger.renew(id, Machine::kSecret, 1, at_second(1200), changes, at_second(1199)),
            Outcome::over);
}

TEST(Ledger, NothingExpiresAndNothingIsGrantedWhilePaused) {
  Machine m({80});
  auto brief = want("brief", 40);
  brief.ttl = Seconds(2);
  const auto held = m.get(brief), rest = m.get(want("rest", 40));
  const auto waiting = m.queue(want("late", 40)), hasty = m.ask(waits(want("hasty", 40), 3)).id;
  m.ledger.pause();
  m.give_back(rest);
  for (const double s : {1003.0, 1010.0, 1500.0}) {
    m.sample_at(s);
    EXPECT_EQ(m.state(held), State::held);
    EXPECT_GT(m.ledger.next_tick(), m.now());
  }
  EXPECT_EQ(m.state(waiting), State::waiting);
  EXPECT_EQ(m.state(hasty), State::ended);  // the end of a wait may be reported
  m.second = 1600;
  EXPECT_EQ(m.renew(held), Outcome::done);  // ticked or not
  m.second = 1700;
  m.ledger.resume(m.now());
  m.tick_at(1701);
  EXPECT_EQ(m.state(held), State::held);
  EXPECT_EQ(m.renew(held), Outcome::done);
  m.tick_at(1704);
  EXPECT_EQ(m.ledger.find(held)->ending, EndReason::expired);
  m.sample_at(1705);
  EXPECT_EQ(m.state(waiting), State::held);
}

}  // namespace
}  // namespace sluice::broker
