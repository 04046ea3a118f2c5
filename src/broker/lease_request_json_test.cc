#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "broker/broker.h"

namespace sluice::broker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LeaseRequest read(const std::string& body) { return lease_request_from_json(body, {}); }

// With a good agent in front.
std::string refusal_of(const std::string& rest) {
  try {
    read("{\"agent\": \"scout\", " + rest + "}");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_LT(std::string(e.what()).size(), 2000U);
    return e.what();
  }
  return "";
}

TEST(LeaseRequestFromJson, ReadsEveryField) {
  const auto w =
      read(R"({"agent": "scout", "memory_gb": 8, "min_memory_gb": 4.5, "priority": "high",
    "model_type": "mini", "gpus": 2, "numa_node": 1, "linked": true, "placement": "spread",
    "ttl_s": 30, "wait_s": 5, "on_unavailable": "wait", "client_limits": true})");
  EXPECT_EQ(w.agent, "scout");
  EXPECT_EQ(w.bytes, std::uint64_t{8} << 30);  // GB are of 2^30 bytes, as everywhere here
  EXPECT_EQ(w.min_bytes, std::uint64_t{4608} << 20);
  EXPECT_EQ(w.priority, Priority::high);
  EXPECT_EQ(w.model_type, "mini");
  EXPECT_EQ(w.gpus, 2U);
  EXPECT_EQ(w.numa_node, 1);
  EXPECT_TRUE(w.linked);
  EXPECT_EQ(w.placement, PlacementPolicy::spread);
  EXPECT_EQ(w.ttl, Seconds(30));
  EXPECT_EQ(w.wait, Seconds(5));
  EXPECT_EQ(w.on_unavailable, OnUnavailable::wait);
  EXPECT_TRUE(w.client_limits);
  EXPECT_EQ(w.holder, Holder{});  // the transport sees who asks, and checks a pid that is named
}

TEST(LeaseRequestFromJson, MissingFieldsHaveTheSettingsValue) {
  BrokerConfig config;
  config.default_ttl_s = 17;
  const auto w = lease_request_from_json(R"({"agent": "scout"})", config);
  EXPECT_EQ(w.ttl, Seconds(17));
  EXPECT_EQ(w.bytes, 0U);  // the broker's settings may know how much
  EXPECT_EQ(w.on_unavailable, OnUnavailable::cpu);
  EXPECT_EQ(w.priority, Priority::normal);
}

TEST(LeaseRequestFromJson, ADeviceMayBeAnIndexOrAName) {
  EXPECT_EQ(read(R"({"agent": "a", "device": 3})").device, "3");
  EXPECT_EQ(read(R"({"agent": "a", "device": "GPU-5"})").device, "GPU-5");
  EXPECT_THAT(refusal_of(R"("device": -1)"), HasSubstr("device must be a GPU's UUID"));
  EXPECT_THAT(refusal_of(R"("device": 1.5)"), HasSubstr("not the number 1.5"));
}

TEST(LeaseRequestFromJson, ALeaseMayBeBoundToItsConnectionAndToAnotherProcess) {
  EXPECT_FALSE(read(R"({"agent": "a"})").bound);
  EXPECT_FALSE(read(R"({"agent": "a"})").named_pid);
  EXPECT_TRUE(read(R"({"agent": "a", "bind": "connection"})").bound);
  EXPECT_EQ(read(R"({"agent": "a", "pid": 4711})").named_pid, 4711);
  EXPECT_THAT(refusal_of("\"pid\": -1"), HasSubstr("pid must be a process number"));
  EXPECT_THAT(refusal_of("\"bind\": true"), HasSubstr("bind must be one of"));
}

TEST(LeaseRequestFromJson, EitherFieldMeansWaiting) {
  EXPECT_EQ(read(R"({"agent": "a", "wait_s": 5})").on_unavailable, OnUnavailable::wait);
  EXPECT_EQ(read(R"({"agent": "a", "on_unavailable": "wait"})").wait, Seconds(60));
  EXPECT_EQ(read(R"({"agent": "a", "wait_s": 0})").on_unavailable, OnUnavailable::cpu);
  EXPECT_THAT(refusal_of(R"("wait_s": 5, "on_unavailable": "fail")"),
              HasSubstr("only \"wait\" waits"));
}

TEST(LeaseRequestFromJson, MemoryMustBeANumberWithinItsLimits) {
  for (const char* bad : {"0", "-8", "1e300", "65537", "\"8\"", "null", "true", "[8]", "{}"})
    EXPECT_THAT(refusal_of("\"memory_gb\": " + std::string(bad)),
                HasSubstr("memory_gb must be a number from 0.001 to 65536 GB"))
        << bad;
  for (const char* bad : {"NaN", "Infinity", "-Infinity", "1e999", "0x8", "08"})
    EXPECT_THAT(refusal_of("\"memory_gb\": " + std::string(bad)), HasSubstr("not JSON")) << bad;
  EXPECT_EQ(refusal_of("\"memory_gb\": 0.001"), "");
  EXPECT_THAT(refusal_of(R"("memory_gb": 4, "min_memory_gb": 8)"), HasSubstr("minimum memory"));
}

TEST(LeaseRequestFromJson, TimesHaveLimits) {
  EXPECT_THAT(refusal_of("\"ttl_s\": 0.5"), HasSubstr("ttl_s must be a number from 1 to 86400"));
  EXPECT_THAT(refusal_of("\"ttl_s\": 86401"), HasSubstr("broker.max_ttl_s"));
  EXPECT_THAT(refusal_of("\"wait_s\": -1"), HasSubstr("wait_s must be a number from 0"));
}

TEST(LeaseRequestFromJson, AnUnknownFieldIsNamedWithItsNearest) {
  EXPECT_THAT(refusal_of("\"memroy_gb\": 8"),
              AllOf(HasSubstr("'memroy_gb' is unknown"), HasSubstr("did you mean 'memory_gb'")));
  EXPECT_THAT(refusal_of("\"uid\": 0"), HasSubstr("'uid' is unknown"));
}

TEST(LeaseRequestFromJson, AnUnknownWordIsRefusedWithTheKnownOnes) {
  EXPECT_THAT(refusal_of("\"priority\": \"hihg\""),
              AllOf(HasSubstr("one of low, normal, high, critical"), HasSubstr("'high'")));
  EXPECT_THAT(refusal_of("\"on_unavailable\": \"gpu\""), HasSubstr("one of cpu, wait, fail"));
  EXPECT_THAT(refusal_of("\"priority\": 3"), HasSubstr("not the number 3"));
}

TEST(LeaseRequestFromJson, EveryProblemIsReportedAtOnce) {
  EXPECT_THAT(refusal_of(R"("memory_gb": -1, "priority": "x", "gpus": 0)"),
              AllOf(HasSubstr("memory_gb"), HasSubstr("priority"), HasSubstr("gpus")));
}

TEST(LeaseRequestFromJson, AFieldGivenTwiceIsRefused) {
  EXPECT_THAT(refusal_of(R"("memory_gb": 1, "memory_gb": 100)"), HasSubstr("given twice"));
}

TEST(LeaseRequestFromJson, TheAgentIsRequiredAndPrintable) {
  EXPECT_THROW(read("{}"), Error);
  EXPECT_THROW(read(R"({"agent": ""})"), Error);
  EXPECT_THROW(read(R"({"agent": "a\u0000b"})"), Error);
  EXPECT_THROW(read(R"({"agent": "a\nb"})"), Error);
  EXPECT_EQ(read(R"({"agent": "späher"})").agent, "späher");
}

TEST(LeaseRequestFromJson, LongNamesGetAShortError) {
  const std::string name(60'000, 'x');
  EXPECT_THAT(refusal_of("\"model_type\": \"" + name + "\""), HasSubstr("has 60000 bytes"));
  EXPECT_THAT(refusal_of("\"" + name + "\": 1"), HasSubstr("is unknown"));
  EXPECT_THAT(refusal_of("\"priority\": \"" + name + "\""), HasSubstr("must be one of"));
  EXPECT_THAT(refusal_of("\"x" + name), HasSubstr("not JSON"));
}

TEST(LeaseRequestFromJson, TenMegabytesAreNotEvenRead) {
  EXPECT_THAT(refusal_of("\"model_type\": \"" + std::string(10'000'000, 'x') + "\""),
              HasSubstr("at most 65536 are allowed"));
}

TEST(LeaseRequestFromJson, ABodyThatIsNotAnObjectIsRefused) {
  for (const char* body : {"", "[]", "8", "null", "\"x\"", "{", "{}}", "{\"agent\": \"a\",}"})
    EXPECT_THROW(read(body), Error) << body;
  EXPECT_THROW(read(std::string(60'000, '[')), Error);
}

}  // namespace
}  // namespace sluice::broker
