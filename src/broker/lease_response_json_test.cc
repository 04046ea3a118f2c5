#include "broker/lease_response_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/broker.h"

namespace sluice::broker {
namespace {

constexpr std::uint64_t kCard = std::uint64_t{1} << 30;
const Moment kNow{Instant(std::chrono::hours(2)), WallTime(std::chrono::hours(480000))};

LeaseResponse granted() {
  LeaseResponse a;
  a.verdict = Verdict::granted;
  a.for_holder = true;
  a.lease.id = 12, a.lease.secret = 0xab, a.lease.renewals = 3;
  a.lease.state = State::held;
  a.lease.request.agent = "scout";
  a.lease.parts = {{"GPU-1", 8 * kCard}};
  a.lease.enforcement = Enforcement::observed;
  a.lease.reason = "fits best";
  a.lease.expires_at = kNow.now + std::chrono::seconds(60);
  a.batch = {32, "settings"};
  a.device_indexes = {1};
  a.env = {{"CUDA_VISIBLE_DEVICES", "GPU-1"}};
  return a;
}

TEST(LeaseResponseJson, AGrantSaysWhereHowMuchAndForHowLong) {
  const auto json = to_json(granted(), kNow.now, kNow.wall);
  EXPECT_EQ(json["status"], "allocated");
  EXPECT_EQ(json["gpu_device"], 1);
  EXPECT_EQ(json["allocated_memory_gb"], 8);
  EXPECT_EQ(json["batch_size"], 32);
  EXPECT_EQ(json["lease_id"], "12");
  EXPECT_EQ(json["fencing_token"], 12);
  EXPECT_EQ(json["token"], "12.3.00000000000000ab");
  EXPECT_EQ(json["gpu_uuid"], "GPU-1");
  EXPECT_EQ(json["gpus"][0]["memory_gb"], 8);
  EXPECT_EQ(json["enforcement"], "observed");
  EXPECT_EQ(json["expires_in_s"], 60);
  EXPECT_EQ(json["expires_at"], "2024-10-04T00:01:00.000Z");
  EXPECT_EQ(json["ttl_s"], 60);
  EXPECT_EQ(json["env"]["CUDA_VISIBLE_DEVICES"], "GPU-1");
  EXPECT_FALSE(json.contains("may_fit_in_s"));
}

TEST(LeaseResponseJson, OthersDoNotSeeTheToken) {
  auto response = granted();
  response.for_holder = false;
  const auto text = to_json(response, kNow.now, kNow.wall).dump();
  EXPECT_EQ(text.find("00ab"), text.npos);
  EXPECT_EQ(text.find("\"token\""), text.npos);
}

TEST(LeaseResponseJson, ARefusalNamesTheBlockingLeasesAndWhenTheyEnd) {
  LeaseResponse a;
  a.verdict = Verdict::refused;
  a.for_holder = true;
  a.lease.reason = "full";
  Lease other;
  other.id = 7, other.request.agent = "analyst", other.parts = {{"GPU-0", kCard}, {"GPU-1", kCard}};
  a.blocked_by = {other};
  a.refusal.may_fit_in = Seconds(12.5);
  a.refusal.obstacles = {{"GPU-0", "0000:01:00.0", "Card", 4 * kCard, kCard, ""},
                         {"GPU-1", "0000:02:00.0", "Card", 0, 0, "lost"}};
  const auto json = to_json(a, kNow.now, kNow.wall);
  EXPECT_EQ(json["status"], "failed");
  EXPECT_TRUE(json["gpu_device"].is_null());
  EXPECT_TRUE(json["lease_id"].is_null());
  EXPECT_EQ(json["allocated_memory_gb"], 0);
  EXPECT_EQ(json["blocked_by"][0]["lease_id"], "7");
  EXPECT_EQ(json["blocked_by"][0]["memory_gb"], 2);
  EXPECT_EQ(json["may_fit_in_s"], 12.5);
  EXPECT_EQ(json["obstacles"][0],
            Json::parse(R"({"gpu_uuid": "GPU-0", "bus": "0000:01:00.0", "name": "Card",
                            "free_gb": 4.0, "kept_gb": 1.0})"));
  EXPECT_EQ(json["obstacles"][1]["why"], "lost");
  EXPECT_FALSE(json.contains("token"));
}

TEST(LeaseResponseJson, EachVerdictHasItsStatus) {
  auto a = granted();
  a.verdict = Verdict::on_cpu, a.lease.state = State::on_cpu, a.lease.parts.clear();
  EXPECT_EQ(to_json(a, kNow.now, kNow.wall)["status"], "cpu_fallback");
  a.verdict = Verdict::waiting, a.lease.state = State::waiting;
  EXPECT_EQ(to_json(a, kNow.now, kNow.wall)["status"], "waiting");
  a.verdict = Verdict::refused, a.lease.state = State::ended;
  EXPECT_EQ(to_json(a, kNow.now, kNow.wall)["status"], "ended");
}

TEST(LeaseResponseJson, AHolderAskedToYieldSeesUntilWhenAndWhy) {
  auto a = granted();
  EXPECT_FALSE(to_json(a, kNow.now, kNow.wall).contains("yield_reason"));
  a.lease.state = State::yielding, a.lease.yield_by = kNow.now + std::chrono::seconds(10);
  a.lease.yields_to = 9, a.lease.yield_reason = "urgent asks for 8.0 GiB";
  const auto json = to_json(a, kNow.now, kNow.wall);
  EXPECT_EQ(json["yield_in_s"], 10);
  EXPECT_EQ(json["yields_to"], "9");
  EXPECT_EQ(json["yield_reason"], "urgent asks for 8.0 GiB");
}

TEST(LeaseResponseJson, OverUseIsInBytesAndAbsentWithoutAny) {
  auto a = granted();
  EXPECT_FALSE(to_json(a, kNow.now, kNow.wall).contains("over_use"));
  a.lease.over_use = 3 * kCard;
  EXPECT_EQ(to_json(a, kNow.now, kNow.wall)["over_use"], 3221225472u);
}

TEST(LeaseResponseJson, MemoryIsRoundedDown) {
  EXPECT_EQ(gb(8 * kCard - 1), 7.999);
  EXPECT_EQ(gb(kCard - 1), 0.999999);
  EXPECT_EQ(gb(8 * kCard), 8);
}

TEST(Token, RoundTripsThroughItsText) {
  const Token token{18446744073709551615u, 7, 0x0123456789abcdef};
  const auto back = token_from(to_string(token));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->id, token.id);
  EXPECT_EQ(back->renewals, 7U);
  EXPECT_EQ(back->secret, token.secret);
}

TEST(Token, RefusesEverythingElse) {
  for (const char* text : {"", ".", "..", "1", "1.2", "1.2.", "1.2.xyz", "1.2.ab.cd", "-1.2.ab",
                           " 1.2.ab", "1.2.ab ", "99999999999999999999.1.ab", "1..ab", "0x1.2.ab"})
    EXPECT_FALSE(token_from(text)) << text;
  EXPECT_FALSE(token_from(std::string(10'000'000, '1')));
}

}  // namespace
}  // namespace sluice::broker
