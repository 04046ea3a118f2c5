#include "serve/views.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/snapshot_for_tests.h"

namespace sluice::serve {
namespace {

const About kAbout{"1.2.3", "host", ago(100)};

TEST(HealthView, SummarisesTheDevices) {
  const auto json = health_view(snapshot_for_tests(), kAbout, kNow);
  EXPECT_EQ(json["status"], "degraded");
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["uptime_s"], 100);
  EXPECT_EQ(json["devices"]["gpus"], 2);
  EXPECT_EQ(json["devices"]["lost"], 1);
}

TEST(HealthView, AMachineWithoutAGpuIsWell) {
  auto snapshot = snapshot_for_tests();
  snapshot.gpus.clear();
  EXPECT_EQ(health_view(snapshot, kAbout, kNow)["status"], "ok");
  EXPECT_EQ(gpu_health_view(snapshot, kNow)["status"], "no_gpu");
}

TEST(HealthView, IsNotReadyOnceNobodyLooksAtTheMachine) {
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

TEST(GpuMemoryView, SpeaksTheSeedsNamesPerGpuAndSummed) {
  const auto json = gpu_memory_view(snapshot_for_tests(), kNow);
  EXPECT_EQ(json["allocated_gb"], 12);
  EXPECT_EQ(json["reserved_gb"], 4);
  EXPECT_EQ(json["free_gb"], 16);
  EXPECT_EQ(json["utilization_pct"], 37.5);
  EXPECT_EQ(json["gpus"][0]["allocated_gb"], 6);
  EXPECT_EQ(json["gpus"][0]["age_s"]["allocated_gb"], 0.5);
  EXPECT_EQ(json["gpus"][0]["processes"][0]["allocated_gb"], 1);
}

TEST(PerformanceView, EachValueHasItsOwnAge) {
  const auto json = performance_view(snapshot_for_tests(), {}, kNow);
  const auto& gpu = json["gpus"][0];
  EXPECT_EQ(gpu["gpu_utilization"], 85);
  EXPECT_EQ(gpu["memory_utilization"], 37.5);
  EXPECT_EQ(gpu["age_s"]["gpu_utilization"], 0.5);
  EXPECT_EQ(gpu["age_s"]["temperature"], 3);
}

TEST(PerformanceView, WhatWasNotMeasuredIsAbsent) {
  const auto json = performance_view(snapshot_for_tests(), {}, kNow);
  EXPECT_FALSE(json["gpus"][0].contains("power_draw"));
  EXPECT_FALSE(json["server"].contains("p99_ms"));
}

TEST(ToText, AProcessNameThatIsNoUtf8DoesNotBreakTheAnswer) {
  const auto text = to_text(gpu_memory_view(snapshot_for_tests(), kNow));
  EXPECT_TRUE(Json::accept(text));
}

}  // namespace
}  // namespace sluice::serve
