#include "serve/views.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/snapshot_for_tests.h"

namespace sluice::serve {
namespace {

const About kAbout{"1.2.3", "host", ago(100)};

TEST(HealthView, TheDevicesAreSummarized) {
  const auto json = health_view(snapshot_for_tests(), kAbout, kNow);
  EXPECT_EQ(json["status"], "degraded");
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["uptime_s"], 100);
  EXPECT_EQ(json["devices"]["gpus"], 2);
  EXPECT_EQ(json["devices"]["lost"], 1);
}

TEST(HealthView, TimesAreIntegerMilliseconds) {
  const About about{"1.2.3", "host", ago(93.2371234)};
  auto snapshot = snapshot_for_tests();
  snapshot.at = ago(0.2369999);
  const auto text = to_text(health_view(snapshot, about, kNow));
  EXPECT_NE(text.find("\"uptime_s\":93.237,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"age_s\":0.237,"), std::string::npos) << text;
}

TEST(ToText, FractionsAreRoundedAndNothingElseChanges) {
  EXPECT_EQ(to_text(Json{{"a", 113.61800000000001},
                         {"b", {0.0009606927039991965, -2.886818963975923e-05}},
                         {"c", {{"d", 150754820096.0}, {"e", 1794711600123}, {"f", 1e300}}},
                         {"g", 5.0}}),
            R"({"a":113.618,"b":[0.000961,-2.9e-05],"c":{"d":150754820096.0,"e":1794711600123,)"
            R"("f":1e+300},"g":5.0})");
}

TEST(HealthView, AMachineWithoutAGpuIsHealthy) {
  auto snapshot = snapshot_for_tests();
  snapshot.gpus.clear();
  EXPECT_EQ(health_view(snapshot, kAbout, kNow)["status"], "ok");
  EXPECT_EQ(gpu_health_view(snapshot, kNow)["status"], "no_gpu");
}

TEST(HealthView, LeaseStoreFailuresAndDamageAreReported) {
  auto s = snapshot_for_tests();
  s.gpus.clear();
  s.lease_store.trouble = "/secret/path: the disk is full";
  EXPECT_EQ(health_view(s, kAbout, kNow)["status"], "degraded");
  EXPECT_EQ(health_view(s, kAbout, kNow)["reasons"], Json({"leases cannot be stored"}));
  EXPECT_EQ(health_view(s, kAbout, kNow)["ready"], true);
  s.lease_store = {"Monday the log is damaged", ""};
  EXPECT_EQ(health_view(s, kAbout, kNow)["status"], "degraded");
  s.lease_store = {};
  EXPECT_EQ(health_view(s, kAbout, kNow)["status"], "ok");
  EXPECT_EQ(health_view(s, kAbout, kNow)["reasons"], Json::array());
}

TEST(GpuHealthView, BeforeTheFirstProbeTheStateIsStarting) {
  watch::Snapshot s;
  s.sampler.state = "starting";
  EXPECT_EQ(gpu_health_view(s, s.at)["status"], "starting");
  EXPECT_EQ(health_view(s, {}, s.at)["status"], "ok");
  s.sampler.state = "not needed: no driver";
  EXPECT_EQ(gpu_health_view(s, s.at)["status"], "no_gpu");
}

TEST(HealthView, AFailedDriverIsUnhealthy) {
  watch::Snapshot s;
  s.at = kNow;
  s.sampler.driver_trouble = "NVML does not start";
  EXPECT_EQ(health_view(s, kAbout, kNow)["status"], "degraded");
  EXPECT_EQ(gpu_health_view(s, kNow)["status"], "driver_down");
}

TEST(HealthView, AFailedDriverIsReportedBesideAnotherVendorsGpu) {
  auto s = snapshot_for_tests();
  s.gpus.resize(1);
  EXPECT_EQ(gpu_health_view(s, kNow)["status"], "healthy");
  s.sampler.driver_trouble = "NVML does not start";
  EXPECT_EQ(health_view(s, kAbout, kNow)["status"], "degraded");
  EXPECT_EQ(gpu_health_view(s, kNow)["status"], "driver_down");
}

TEST(HealthView, AStaleSnapshotIsNotReady) {
  auto snapshot = snapshot_for_tests();
  snapshot.at = ago(kStaleAfter + 1);
  const auto json = health_view(snapshot, kAbout, kNow);
  EXPECT_EQ(json["live"], true);
  EXPECT_EQ(json["ready"], false);
}

TEST(GpuHealthView, NamesTheWorstStateAndItsCause) {
  const auto json = gpu_health_view(snapshot_for_tests(), kNow);
  EXPECT_EQ(json["status"], "lost");
  EXPECT_EQ(json["gpus"][0]["state"], "healthy");
  EXPECT_EQ(json["gpus"][1]["cause"], "GPU has fallen off the bus");
  EXPECT_EQ(json["gpus"][0]["age_s"], 0.5);
}

TEST(GpuMemoryView, MemoryIsReportedPerGpuAndSummed) {
  const auto json = gpu_memory_view(snapshot_for_tests(), kNow);
  EXPECT_EQ(json["allocated_gb"], 12);
  EXPECT_EQ(json["reserved_gb"], 4);
  EXPECT_EQ(json["free_gb"], 16);
  EXPECT_EQ(json["utilization_pct"], 37.5);
  EXPECT_EQ(json["gpus"][0]["allocated_gb"], 6);
  EXPECT_EQ(json["gpus"][0]["age_s"]["allocated_gb"], 0.5);
  EXPECT_EQ(json["gpus"][0]["processes"][0]["allocated_gb"], 1);
}

TEST(PerformanceView, EachValueHasItsAge) {
  const auto json = performance_view(snapshot_for_tests(), {}, kNow);
  const auto& gpu = json["gpus"][0];
  EXPECT_EQ(gpu["gpu_utilization"], 85);
  EXPECT_EQ(gpu["memory_utilization"], 37.5);
  EXPECT_EQ(gpu["age_s"]["gpu_utilization"], 0.5);
  EXPECT_EQ(gpu["age_s"]["temperature"], 3);
}

TEST(PerformanceView, UnmeasuredValuesAreAbsent) {
  const auto json = performance_view(snapshot_for_tests(), {}, kNow);
  EXPECT_FALSE(json["gpus"][0].contains("power_draw"));
  EXPECT_FALSE(json["server"].contains("p99_ms"));
}

TEST(ToText, AnInvalidUtf8ProcessNameIsReplaced) {
  const auto text = to_text(gpu_memory_view(snapshot_for_tests(), kNow));
  EXPECT_TRUE(Json::accept(text));
}

}  // namespace
}  // namespace sluice::serve
