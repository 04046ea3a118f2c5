#include "broker/store/restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::broker {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const Moment kBoot{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};
Instant second(double s) {
  return kBoot.now + std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

Lease held(double ttl_s, double expires_in_s) {
  Lease l;
  l.id = 1, l.secret = 42, l.renewals = 5;
  l.request.ttl = Seconds(ttl_s);
  l.request.holder = {4711, 99, -1, 8};
  l.state = State::held;
  l.parts = {{"GPU-0", 1}};
  l.requested_at = second(-100), l.granted_at = second(-50), l.expires_at = second(expires_in_s);
  return l;
}

Lease only(const Restored& r) {
  EXPECT_THAT(r.live, SizeIs(1));
  return r.live.at(0);
}

TEST(Restore, ALeaseKeepsItsNumberSecretAndRenewals) {
  const auto l = only(restored({held(60, 40)}, true, kBoot));
  EXPECT_EQ(l.id, 1U);
  EXPECT_EQ(l.secret, 42U);
  EXPECT_EQ(l.renewals, 5U);
  EXPECT_EQ(l.expires_at, second(40));
}

TEST(Restore, ALeaseThatCouldNotBeRenewedMeanwhileGetsGrace) {
  EXPECT_EQ(only(restored({held(60, -30)}, true, kBoot)).expires_at, second(15));
  EXPECT_EQ(only(restored({held(60, 3)}, true, kBoot)).expires_at, second(15));
  EXPECT_EQ(only(restored({held(4, -30)}, true, kBoot)).expires_at, second(4));
}

TEST(Restore, AClockSetBackDoesNotMakeALeaseLonger) {
  EXPECT_EQ(only(restored({held(60, 9000)}, true, kBoot)).expires_at, second(60));
}

TEST(Restore, ConnectionsAreCut) {
  EXPECT_EQ(only(restored({held(60, 40)}, true, kBoot)).request.holder.connection, 0U);
}

TEST(Restore, AWaitingRequestEndsAndIsGrantedNothing) {
  auto waiting = held(60, 200);
  waiting.state = State::waiting, waiting.parts.clear(), waiting.request.wait = Seconds(300);
  const auto r = restored({waiting}, true, kBoot);
  EXPECT_THAT(r.live, IsEmpty());
  ASSERT_THAT(r.ended, SizeIs(1));
  EXPECT_EQ(r.ended[0].state, State::ended);
  EXPECT_EQ(r.ended[0].ending, EndReason::released);
  EXPECT_THAT(r.ended[0].reason, testing::HasSubstr("ask again"));
}

TEST(Restore, ACpuLeaseStays) {
  auto on_cpu = held(60, 40);
  on_cpu.state = State::on_cpu, on_cpu.parts.clear();
  EXPECT_EQ(only(restored({on_cpu}, true, kBoot)).state, State::on_cpu);
}

TEST(Restore, NoProcessOutlivesABoot) {
  const auto r = restored({held(60, 40)}, false, kBoot);
  EXPECT_THAT(r.live, IsEmpty());
  ASSERT_THAT(r.ended, SizeIs(1));
  EXPECT_EQ(r.ended[0].ending, EndReason::holder_died);
  EXPECT_EQ(r.ended[0].ended_at, kBoot.now);
}

TEST(Restore, AHolderKnownByItsRenewalsOnlyMayComeBackAfterABoot) {
  auto l = held(60, 40);
  l.request.holder.pid = 0;
  EXPECT_THAT(restored({l}, false, kBoot).live, SizeIs(1));
}

TEST(Restore, ADrainingLeaseEnds) {
  auto l = held(60, 40);
  l.state = State::draining, l.ending = EndReason::expired, l.ended_at = second(-3),
  l.reason = "late";
  const auto r = restored({l}, true, kBoot);
  EXPECT_THAT(r.live, IsEmpty());
  ASSERT_THAT(r.ended, SizeIs(1));
  EXPECT_EQ(r.ended[0].state, State::ended);
  EXPECT_EQ(r.ended[0].ending, EndReason::expired);
  EXPECT_EQ(r.ended[0].ended_at, second(-3));
}

TEST(Restore, AYieldingLeaseIsHeldAsBefore) {
  auto l = held(60, 40);
  l.state = State::yielding, l.yield_by = second(-5), l.yields_to = 2;
  const auto r = only(restored({l}, true, kBoot));
  EXPECT_EQ(r.state, State::held);
  EXPECT_EQ(r.yields_to, 0U);
  EXPECT_EQ(r.expires_at, second(40));
}

}  // namespace
}  // namespace sluice::broker
