#include "device/metric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

namespace sluice::device {
namespace {

TEST(Metric, EveryMetricIsFoundByItsName) {
  for (const auto& m : metrics()) {
    EXPECT_EQ(find_metric(m.name), m.id) << m.name;
    EXPECT_EQ(info(m.id).name, m.name);
    EXPECT_FALSE(m.help.empty()) << m.name;
  }
  EXPECT_EQ(find_metric("no_such_thing"), std::nullopt);
}

TEST(Metric, NoTwoMetricsShareAName) {
  std::set<std::string_view> seen;
  for (const auto& m : metrics())
    for (const auto name : {m.name, m.prometheus, m.dcgm, m.triton})
      EXPECT_TRUE(name.empty() || seen.insert(name).second) << name;
}

// promtool's linter requires of a name: lower case, _total on counters only.
TEST(Metric, PrometheusNamesFollowTheirConventions) {
  for (const auto& m : metrics()) {
    if (m.prometheus.empty()) continue;
    EXPECT_TRUE(m.prometheus.starts_with("sluice_")) << m.prometheus;
    EXPECT_EQ(m.prometheus.ends_with("_total"), m.kind == Kind::counter) << m.prometheus;
    EXPECT_TRUE(std::ranges::all_of(m.prometheus, [](char c) {
      return c == '_' || std::islower(static_cast<unsigned char>(c)) || std::isdigit(c);
    })) << m.prometheus;
  }
}

TEST(Metric, NamesOfOtherExportersCarryTheirUnits) {
  EXPECT_EQ(info(Metric::memory_used).dcgm, "DCGM_FI_DEV_FB_USED");
  EXPECT_DOUBLE_EQ(info(Metric::memory_used).dcgm_scale * 1048576, 1);  // MiB
  EXPECT_DOUBLE_EQ(info(Metric::energy).dcgm_scale, 1000);              // mJ
  EXPECT_DOUBLE_EQ(info(Metric::utilization).triton_scale * 100, 1);    // 0..1
  EXPECT_EQ(info(Metric::power_limit).triton, "nv_gpu_power_limit");
}

// The names Grafana board 12239 and Triton's own board read.
TEST(Metric, KnownBoardsFindTheirNames) {
  std::set<std::string_view> names;
  for (const auto& m : metrics()) names.insert({m.dcgm, m.triton});
  for (const auto* expected :
       {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK",
        "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE",
        "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "nv_gpu_utilization", "nv_gpu_power_usage", "nv_gpu_power_limit", "nv_energy_consumption",
        "nv_gpu_memory_total_bytes", "nv_gpu_memory_used_bytes"})
    EXPECT_TRUE(names.contains(expected)) << expected;
}

}  // namespace
}  // namespace sluice::device
