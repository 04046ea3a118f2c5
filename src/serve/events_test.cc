#include "serve/events.h"

#include <gtest/gtest.h>

namespace sluice::serve {
namespace {

using namespace std::chrono_literals;

struct Events : testing::Test {
  EventRing ring{1000, 3};
  Instant now{};
  EventCursor::MachineState state{1, 1, std::make_shared<const std::string>("{}")};

  EventCursor cursor(std::optional<Seconds> interval, std::uint64_t after = 0) {
    return {ring, after, interval, [this](Instant) { return state; }};
  }
  static std::string pull(EventCursor& from, Instant at) {
    std::string out;
    from.pull(at, out);
    return out;
  }
};

TEST_F(Events, AListenerGetsEachEventOnceWithItsId) {
  auto listener = cursor(std::nullopt);
  pull(listener, now);
  ring.add("alert", R"({"a":1})");
  EXPECT_EQ(pull(listener, now), "id: 1000-1\nevent: alert\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(pull(listener, now), "");
}

TEST_F(Events, AListenerOfOneSubjectGetsNoOther) {
  EventCursor listener(
      ring, 0, std::nullopt, [this](Instant) { return state; }, "lease 7");
  pull(listener, now);
  ring.add("lease_granted", "{}", "lease 7");
  ring.add("lease_granted", "{}", "lease 77");
  ring.add("alert", "{}");
  EXPECT_EQ(pull(listener, now), "id: 1000-1\nevent: lease_granted\ndata: {}\n\n");
  EXPECT_EQ(pull(listener, now), "");
}

TEST_F(Events, ASlowListenerGetsTheNumberOfMissedEvents) {
  auto listener = cursor(std::nullopt);
  pull(listener, now);
  for (int i = 0; i < 5; ++i) ring.add("xid", "{}");
  const auto text = pull(listener, now);
  EXPECT_TRUE(text.starts_with("event: gap\ndata: {\"missed\":2}\n\nid: 1000-3\n")) << text;
}

TEST_F(Events, EventsOfOneOwnerEvictNoneOfAnother) {
  EventRing wide{1000, 8};
  wide.add("lease_yield", "{}", "lease 1", "uid:1");
  for (int i = 0; i < 100; ++i) wide.add("lease_granted", "{}", "lease 2", "uid:2");
  EXPECT_EQ(wide.since(0, "lease 1").text, "id: 1000-1\nevent: lease_yield\ndata: {}\n\n");
  EXPECT_EQ(wide.since(0).missed, 96u);  // each has half
}

TEST_F(Events, OnlyTheMostRecentOwnersAreKept) {
  EventRing wide{1000, 32};
  for (int owner = 0; owner < 40; ++owner)
    for (int i = 0; i < 10; ++i)
      wide.add("lease_granted", "{}", "lease " + std::to_string(owner), std::to_string(owner));
  EXPECT_GE(wide.since(0).missed, 400u - 32u);
  EXPECT_NE(wide.since(0, "lease 39").text, "");
  EXPECT_EQ(wide.since(0, "lease 1").text, "");
  EXPECT_GT(wide.since(0, "lease 1").missed, 0u);
}

TEST_F(Events, LeaseEventsAndAlertsDoNotEvictEachOther) {
  auto listener = cursor(std::nullopt);
  pull(listener, now);
  ring.add("alert", "{}");
  for (int i = 0; i < 1000; ++i) ring.add("lease_granted", "{}", "lease " + std::to_string(i));
  ring.add("alert", "{}");
  EXPECT_EQ(pull(listener, now),
            "event: gap\ndata: {\"missed\":997}\n\n"
            "id: 1000-1\nevent: alert\ndata: {}\n\n"
            "id: 1000-999\nevent: lease_granted\ndata: {}\n\n"
            "id: 1000-1000\nevent: lease_granted\ndata: {}\n\n"
            "id: 1000-1001\nevent: lease_granted\ndata: {}\n\n"
            "id: 1000-1002\nevent: alert\ndata: {}\n\n");
}

TEST_F(Events, AListenerOfOneSubjectMissesNothingWhenOthersDo) {
  EventCursor listener(
      ring, 0, std::nullopt, [this](Instant) { return state; }, "lease 7");
  pull(listener, now);
  ring.add("lease_granted", "{}", "lease 7");
  for (int i = 0; i < 10; ++i) ring.add("xid", "{}");
  EXPECT_EQ(pull(listener, now), "id: 1000-1\nevent: lease_granted\ndata: {}\n\n");
}

TEST_F(Events, AListenerResumesAfterTheLastEventSeen) {
  for (int i = 0; i < 3; ++i) ring.add("xid", "{}");
  EXPECT_EQ(ring.resume("1000-2"), 2u);
  auto listener = cursor(std::nullopt, *ring.resume("1000-2"));
  const auto text = pull(listener, now);
  EXPECT_EQ(text.find("id: 1000-2"), std::string::npos);
  EXPECT_NE(text.find("id: 1000-3"), std::string::npos);
}

TEST_F(Events, AnIdOfAnotherRunReplaysAllKeptEvents) {
  ring.add("xid", "{}");
  EXPECT_EQ(ring.resume("999-57"), 0u);
}

TEST_F(Events, AnInvalidIdIsRejected) {
  for (const auto* bad : {"", "-", "1000-", "1000-x", "x-1", "1000", "1000-1 "})
    EXPECT_FALSE(ring.resume(bad)) << bad;
}

TEST_F(Events, AnIdFromTheFutureIsClampedToTheNewest) { EXPECT_EQ(ring.resume("1000-99"), 0u); }

TEST_F(Events, TheStateIsSentAtOnceAndThenAtEachInterval) {
  auto listener = cursor(Seconds(1));
  EXPECT_NE(pull(listener, now).find("event: snapshot\ndata: {}\n\n"), std::string::npos);
  state.sequence = 2;
  EXPECT_EQ(pull(listener, now + 500ms), "");
  EXPECT_EQ(pull(listener, now + 1000ms), "event: snapshot\ndata: {}\n\n");
}

TEST_F(Events, AnUrgentStateIsSentEarly) {
  auto listener = cursor(Seconds(60));
  pull(listener, now);
  state = {2, 2, state.text};
  EXPECT_NE(pull(listener, now + 1ms).find("snapshot"), std::string::npos);
}

TEST_F(Events, TheSameStateIsNotSentTwice) {
  auto listener = cursor(Seconds(1));
  pull(listener, now);
  EXPECT_EQ(pull(listener, now + 1s), "");
}

TEST_F(Events, AnIdleStreamSendsHeartbeats) {
  auto listener = cursor(std::nullopt);
  std::string out;
  const auto again = listener.pull(now, out);
  EXPECT_EQ(again, now + 15s);
  EXPECT_EQ(pull(listener, now + 14s), "");
  EXPECT_TRUE(pull(listener, again).starts_with(":"));
}

// A long interval once left events unbounded: 600 listeners caused 12,000 reads a second.
TEST(EventCursor, ManyListenersWithAnIntervalShareTheEventRateToo) {
  EventRing ring(1, 8);
  const auto client_group = std::make_shared<char>();
  const std::vector<EventCursor::ClientGroup> others(999, client_group);
  EventCursor cursor(
      ring, 0, Seconds(3600), [](Instant) { return EventCursor::MachineState{}; }, "",
      client_group);
  const Instant start{std::chrono::hours(1)};
  const auto hears = [&](double after_s) {
    std::string out;
    cursor.pull(start + std::chrono::duration_cast<Steady::duration>(Seconds(after_s)), out);
    return out.find("alert") != std::string::npos;
  };
  EXPECT_FALSE(hears(-10));
  ring.add("alert", "{}");
  EXPECT_TRUE(hears(0));
  ring.add("alert", "{}");
  EXPECT_FALSE(hears(0.5));
  EXPECT_TRUE(hears(5.1));
}

TEST(EventCursor, ManyListenersOfOneClientShareTheEventRate) {
  EventRing ring(1, 8);
  const auto client_group = std::make_shared<char>();
  const std::vector<EventCursor::ClientGroup> others(998, client_group);  // with ours a thousand
  EventCursor any(ring, 0, std::nullopt, nullptr, "", client_group);
  EventCursor own(ring, 0, std::nullopt, nullptr, "lease 7", client_group);
  const Instant start{std::chrono::hours(1)};
  const auto hears = [&](EventCursor& cursor, double after_s, Instant* again = nullptr) {
    std::string out;
    const auto next =
        cursor.pull(start + std::chrono::duration_cast<Steady::duration>(Seconds(after_s)), out);
    if (again != nullptr) *again = next;
    return out.find("lease_granted") != std::string::npos;
  };
  EXPECT_FALSE(hears(any, -10));
  EXPECT_FALSE(hears(own, -10));
  ring.add("lease_granted", "{}", "lease 7");
  EXPECT_TRUE(hears(any, 0));
  EXPECT_TRUE(hears(own, 0));
  ring.add("lease_granted", "{}", "lease 7");
  Instant again{};
  EXPECT_FALSE(hears(any, 0.5, &again));
  EXPECT_GT(again, start + std::chrono::milliseconds(4900));
  EXPECT_LT(again, start + std::chrono::milliseconds(5100));
  EXPECT_FALSE(hears(own, 0.5));
  EXPECT_TRUE(hears(own, 1.1));
  EXPECT_TRUE(hears(any, 5.1));
}

// Each of 2,000 new listeners once got all kept events at once.
TEST(EventCursor, TheFirstEventsOfManyListenersWaitForTheirTurn) {
  EventRing ring(1, 8);
  ring.add("alert", "{}");
  const auto client_group = std::make_shared<char>();
  std::vector<EventCursor::ClientGroup> others(20, client_group);
  const Instant start{std::chrono::hours(1)};
  const auto hears = [&](EventCursor& cursor, Instant at) {
    std::string out;
    cursor.pull(at, out);
    return out.find("alert") != std::string::npos;
  };
  EventCursor of_few(ring, 0, std::nullopt, nullptr, "", client_group);
  EXPECT_TRUE(hears(of_few, start));
  others.resize(999, client_group);
  EventCursor of_many(ring, 0, std::nullopt, nullptr, "", client_group);
  EXPECT_FALSE(hears(of_many, start));
  EXPECT_FALSE(hears(of_many, start + std::chrono::seconds(4)));
  EXPECT_TRUE(hears(of_many, start + std::chrono::milliseconds(5100)));
}

TEST(EventCursor, AListenerThatMissedMuchGetsItInBatches) {
  EventRing ring(1, 1024);
  for (int i = 0; i < 500; ++i) ring.add("big", std::string(1000, 'x'), "lease 7");
  EventCursor cursor(ring, 0, std::nullopt, nullptr);
  Instant at{std::chrono::hours(1)};
  std::size_t events = 0, pulls = 0;
  for (std::string out; events < 500 && pulls < 100; ++pulls, out.clear()) {
    at = std::max(at, cursor.pull(at, out));
    EXPECT_LT(out.size(), EventRing::kMaxAtOnce + 2000);
    EXPECT_EQ(out.find("gap"), std::string::npos);
    for (auto p = out.find("event: big"); p != std::string::npos; p = out.find("event: big", p + 1))
      ++events;
  }
  EXPECT_EQ(events, 500u);
  EXPECT_GT(pulls, 5u);
}

TEST(EventCursor, ManyListenersOfOneClientShareTheSnapshotRate) {
  const EventRing ring(1, 8);
  const auto client_group = std::make_shared<char>();
  const std::vector<EventCursor::ClientGroup> others(999, client_group);
  std::uint64_t sequence = 0;
  const auto latest = [&](Instant) {
    return EventCursor::MachineState{++sequence, 1, std::make_shared<const std::string>("{}")};
  };
  EventCursor cursor(ring, 0, Seconds(0.1), latest, "", client_group);
  const Instant start{std::chrono::hours(1)};
  std::string out;
  cursor.pull(start, out);
  out.clear();
  cursor.pull(start + std::chrono::seconds(1), out);
  EXPECT_EQ(out, "");
  cursor.pull(start + std::chrono::seconds(6), out);
  EXPECT_NE(out.find("snapshot"), std::string::npos);
}

}  // namespace
}  // namespace sluice::serve
