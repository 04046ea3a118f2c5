#include "broker/lease/idempotency.h"

#include "broker/broker_case_for_tests.h"

namespace sluice::broker {
namespace {

constexpr const char* kBody = R"({"agent": "scout", "memory_gb": 2})";

TEST(Idempotency, TheOrderOfFieldsAndBlanksDoNotCount) {
  EXPECT_EQ(keyed("k", kBody), keyed("k", R"({"memory_gb":2,"agent":"scout"})"));
  EXPECT_NE(keyed("k", kBody), keyed("k", R"({"memory_gb":3,"agent":"scout"})"));
  EXPECT_EQ(client_key(keyed("a-1:\"x\"", kBody)), "a-1:\"x\"");
}

TEST(Idempotency, AKeyIsShortVisibleText) {
  EXPECT_NO_THROW(keyed(std::string(128, 'k'), kBody));
  for (const std::string bad : {"", "a b", "a\tb", "\x7f", "\xc3\xa4", "a, b"})
    EXPECT_THROW(keyed(bad, kBody), Error) << bad;
  EXPECT_THROW(keyed(std::string(129, 'k'), kBody), Error);
}

class IdempotencyTest : public BrokerTest {
 protected:
  LeaseRequest asks(const std::string& key, double gb = 2, const std::string& peer = "uid:1",
                    OnUnavailable how = OnUnavailable::fail) {
    auto w = lease_request("scout", gb, how);
    w.peer = peer;
    w.idempotency_key = keyed(key, "[" + std::to_string(gb) + "]");
    if (how == OnUnavailable::wait) w.wait = Seconds(60);
    return w;
  }
};

TEST_F(IdempotencyTest, ARetryGetsTheSameLeaseWithItsCurrentToken) {
  open();
  const auto first = broker->request(asks("k"));
  const auto second = broker->request(asks("k"));
  EXPECT_EQ(second.lease.id, first.lease.id);
  EXPECT_TRUE(second.for_holder);
  EXPECT_EQ(to_string(token(second)), to_string(token(first)));
  const auto renewed = broker->renew(token(first));
  EXPECT_EQ(to_string(token(broker->request(asks("k")))), to_string(token(renewed)));
  EXPECT_NE(broker->request(asks("other")).lease.id, first.lease.id);
  EXPECT_EQ(broker->leases_json()["counts"]["leases"], 2);
}

TEST_F(IdempotencyTest, TheSameKeyWithAnotherBodyIsRefusedAndChangesNothing) {
  open();
  const auto first = broker->request(asks("k"));
  EXPECT_THROW(broker->request(asks("k", 3)), KeyReused);
  EXPECT_EQ(broker->request(asks("k")).lease.id, first.lease.id);
  EXPECT_EQ(broker->leases_json()["counts"]["leases"], 1);
}

TEST_F(IdempotencyTest, KeysBelongToTheirPeer) {
  open();
  const auto first = broker->request(asks("k"));
  const auto other = broker->request(asks("k", 3, "uid:2"));
  EXPECT_NE(other.lease.id, first.lease.id);
}

TEST_F(IdempotencyTest, AKeyLivesAsLongAsItsLease) {
  open();
  const auto first = broker->request(asks("k"));
  broker->release(token(first));
  const auto second = broker->request(asks("k", 3));
  EXPECT_NE(second.lease.id, first.lease.id);
  host.pass(61);  // not renewed, and not ticked either
  broker->observe(host.sample());
  EXPECT_NE(broker->request(asks("k", 4)).lease.id, second.lease.id);
}

TEST_F(IdempotencyTest, ARetryAfterARestartGetsTheSameLease) {
  open();
  const auto held = broker->request(asks("k"));
  const auto on_cpu = broker->request(asks("c", 100, "uid:1", OnUnavailable::cpu));
  open();
  EXPECT_EQ(broker->request(asks("k")).lease.id, held.lease.id);
  EXPECT_EQ(broker->request(asks("c", 100, "uid:1", OnUnavailable::cpu)).lease.id, on_cpu.lease.id);
  EXPECT_THROW(broker->request(asks("k", 3)), KeyReused);
}

TEST_F(IdempotencyTest, ARetryAfterARestartBindsTheLeaseAgain) {
  open();
  auto wish = asks("k");
  wish.bound = true, wish.holder.connection = 7;
  const auto first = broker->request(wish);
  open();
  wish.holder.connection = 8;
  EXPECT_TRUE(broker->request(wish).lease.request.bound);
  broker->connection_closed(8);
  EXPECT_EQ(broker->status(first.lease.id).lease.state, State::draining);
}

TEST_F(IdempotencyTest, ALeavingRetryDoesNotEndWhatAnotherRetryWaitsFor) {
  open();
  broker->request(lease_request("big", 24));
  broker->request(lease_request("big", 16));
  const auto wish = asks("k", 10, "uid:1", OnUnavailable::wait);
  const auto first = broker->request(wish), second = broker->request(wish);
  ASSERT_EQ(first.verdict, Verdict::waiting);
  EXPECT_EQ(second.verdict, Verdict::waiting);
  EXPECT_EQ(second.lease.id, first.lease.id);
  broker->leave(token(first));
  EXPECT_EQ(broker->status(token(second)).lease.state, State::waiting);
  broker->leave(token(second));
  EXPECT_EQ(broker->status(token(second)).lease.state, State::ended);
}

TEST_F(IdempotencyTest, ABoundLeaseIsBoundToTheConnectionOfItsRetry) {
  open();
  auto wish = asks("k");
  wish.holder.connection = 7;
  const auto first = broker->request(wish);
  wish.holder.connection = 8;
  EXPECT_EQ(broker->request(wish).lease.id, first.lease.id);
  broker->connection_closed(7);
  EXPECT_EQ(broker->status(first.lease.id).lease.state, State::held);
  broker->connection_closed(8);
  EXPECT_EQ(broker->status(first.lease.id).lease.state, State::draining);
}

}  // namespace
}  // namespace sluice::broker
