#include "watch/snapshot.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sluice::watch {
namespace {

using device::Metric;

constexpr Instant kTaken{std::chrono::hours(1)};
Instant ago(double s) { return kTaken - std::chrono::duration_cast<Steady::duration>(Seconds(s)); }

GpuView busy_gpu() {
  GpuView view;
  view.gpu.vendor = device::Vendor::nvidia;
  view.gpu.uuid = "GPU-1";
  view.gpu.bus = "0000:04:00.0";
  view.gpu.name = "NVIDIA H200";
  view.sampled_at = ago(0.4);
  view.readings.set(Metric::utilization, 87, ago(0.4));
  view.readings.set(Metric::memory_used, 60, ago(0.4));
  view.readings.set(Metric::memory_total, 80, ago(0.4));
  view.readings.set(Metric::throttle_reasons, 0x4 | 0x1, ago(0.4));
  view.readings.processes = {{4711, "python3", "ann", "compute", 1024, 80.0, {}}};
  view.readings.processes_at = ago(3.25);
  view.xids = {{79, ago(31), WallTime{}}};
  view.health.state = device::HealthState::degraded;
  view.health.cause = "hot";
  view.health.since = ago(120.5);
  return view;
}

TEST(Snapshot, EveryValueCarriesItsAge) {
  const auto j = to_json(busy_gpu(), kTaken);
  EXPECT_EQ(j["readings"]["utilization"],
            (Json{{"value", 87.0}, {"unit", "percent"}, {"age_s", 0.4}}));
  EXPECT_EQ(j["age_s"], 0.4);
  EXPECT_EQ(j["memory_percent"], 75.0);
  EXPECT_EQ(j["throttle"], Json::array({"power cap"}));
  EXPECT_EQ(j["health"]["state"], "degraded");
  EXPECT_EQ(j["health"]["since_s"], 120.5);
  EXPECT_EQ(j["processes"]["age_s"], 3.25);
  EXPECT_EQ(j["processes"]["list"][0]["memory_bytes"], 1024);
  EXPECT_FALSE(j["processes"]["list"][0].contains("memory_activity"));
  EXPECT_EQ(j["xids"][0]["code"], 79);
  EXPECT_EQ(j["xids"][0]["action"], "reboot");
  EXPECT_EQ(j["xids"][0]["age_s"], 31.0);
}

TEST(Snapshot, UnknownValuesAreAbsent) {
  const auto j = to_json(GpuView{}, kTaken);
  EXPECT_TRUE(j["readings"].empty());
  for (const auto* key : {"age_s", "memory_percent", "throttle", "processes"})
    EXPECT_FALSE(j.contains(key)) << key;
}

TEST(Snapshot, AReadingFromTheFutureIsNew) {
  auto view = busy_gpu();
  view.readings.set(Metric::power, 1, ago(-0.01));
  EXPECT_EQ(to_json(view, kTaken)["readings"]["power"]["age_s"], 0.0);
}

TEST(Snapshot, HasThePartsThatTheDocumentationNames) {
  Snapshot s;
  s.sequence = 12;
  s.wall = WallTime(std::chrono::milliseconds(1'794'711'600'123));
  s.gpus = {busy_gpu()};
  s.host.set(Metric::cpu_utilization, 12.5, ago(0.9));
  s.server.set(Metric::request_rate, 3, ago(0.2));
  s.sampler.state = "running";
  s.notes = {"AMD: no amdgpu device"};
  s.demo = "gpu-falls-off";
  s.at = kTaken;
  const auto j = to_json(s, kTaken);
  EXPECT_EQ(j["sequence"], 12);
  EXPECT_EQ(j["time_ms"], 1'794'711'600'123);
  EXPECT_EQ(j["gpus"].size(), 1U);
  EXPECT_EQ(j["cpu"]["readings"]["cpu_utilization"]["value"], 12.5);
  EXPECT_EQ(j["server"]["readings"]["request_rate"]["unit"], "per_second");
  EXPECT_EQ(j["sampler"]["state"], "running");
  EXPECT_EQ(j["notes"][0], "AMD: no amdgpu device");
  EXPECT_EQ(j["demo"], "gpu-falls-off");
  EXPECT_TRUE(j["alerts"].empty());
}

}  // namespace
}  // namespace sluice::watch
