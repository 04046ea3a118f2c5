#include "device/detect/detect_nvidia.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/demo/demo.h"

namespace sluice::device {
namespace {

using testing::HasSubstr;

struct Detected {
  std::vector<Gpu> gpus;
  std::vector<std::string> notes;
};

Detected detect_at(const std::string& demo, double t_s) {
  const auto nvml = open_demo(demo);
  freeze_demo(*nvml, t_s);
  Detected found;
  found.gpus = detect_nvidia(*nvml, found.notes);
  return found;
}

TEST(DetectNvidia, DescribesEightH200InTheOrderOfTheirBuses) {
  const auto found = detect_at("eight-gpus", 10);
  ASSERT_EQ(found.gpus.size(), 8u);
  EXPECT_TRUE(found.notes.empty());
  for (std::size_t i = 0; i < 8; ++i) {
    const Gpu& gpu = found.gpus[i];
    EXPECT_EQ(gpu.name, "NVIDIA H200");
    EXPECT_EQ(gpu.card->key, "h200");
    EXPECT_EQ(gpu.sm_count, 132u);
    EXPECT_EQ(gpu.nvlinks.size(), 18u);
    EXPECT_EQ(gpu.numa_node, i < 4 ? 0 : 1);
    EXPECT_EQ(gpu.recommended_precision, Precision::bf16);
    EXPECT_EQ(gpu.mig->enabled, false);
    EXPECT_EQ(gpu.power.max_w, 700);
    EXPECT_EQ(gpu.ecc.enabled, true);
    if (i > 0) {
      EXPECT_LT(found.gpus[i - 1].bus, gpu.bus);
    }
  }
}

TEST(DetectNvidia, RecommendsPerCardInAMixedMachine) {
  const auto found = detect_at("mixed-cards", 10);
  ASSERT_EQ(found.gpus.size(), 8u);
  const std::pair<const char*, Precision> kExpected[] = {
      {"p4", Precision::fp32},       {"rtx-3060-ti", Precision::bf16}, {"t4", Precision::fp16},
      {"v100-32", Precision::fp16},  {"a100-80", Precision::bf16},     {"l4", Precision::bf16},
      {"rtx-4090", Precision::bf16}, {"jetson-orin", Precision::bf16}};
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    ASSERT_TRUE(found.gpus[i].card) << found.gpus[i].name;
    EXPECT_EQ(found.gpus[i].card->key, kExpected[i].first);
    EXPECT_EQ(found.gpus[i].recommended_precision, kExpected[i].second) << kExpected[i].first;
  }
  EXPECT_EQ(found.gpus[4].mig->instances, 3u);
  EXPECT_FALSE(found.gpus[7].memory_total);
  EXPECT_EQ(found.gpus[6].persistence, false);
}

TEST(DetectNvidia, DoesNotLetALostGpuHideTheOthers) {
  const auto found = detect_at("gpu-falls-off", 6);
  EXPECT_EQ(found.gpus.size(), 1u);
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_THAT(found.notes[0], HasSubstr("the GPU is lost"));
}

TEST(DetectNvidia, LeavesOutFactsThatAnOldDriverDoesNotReport) {
  const auto found = detect_at("old-driver", 1);
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_FALSE(found.gpus[0].sm_count);
  EXPECT_FALSE(found.gpus[0].memory_reserved);
  EXPECT_EQ(found.gpus[0].driver_version, "470.256.02");
  EXPECT_EQ(found.gpus[0].recommended_precision, Precision::fp32);
  EXPECT_FALSE(found.gpus[1].card);
  EXPECT_EQ(found.gpus[1].compute_major, 5);
  EXPECT_EQ(found.gpus[1].recommended_precision, Precision::fp32);
}

TEST(DetectNvidia, WorksInEveryScenarioThatStarts) {
  for (const std::string& name : demo_names()) {
    if (name == "driver-mismatch") continue;
    SCOPED_TRACE(name);
    const auto found = detect_at(name, 2);
    EXPECT_FALSE(found.gpus.empty());
    EXPECT_TRUE(found.notes.empty());
    for (const Gpu& gpu : found.gpus) {
      EXPECT_FALSE(gpu.uuid.empty());
      EXPECT_FALSE(gpu.bus.empty());
      EXPECT_FALSE(gpu.recommended_because.empty());
    }
  }
}

TEST(DetectNvidia, ChoosesAPrecisionForUnknownCardsByArchitecture) {
  EXPECT_EQ(recommend_for_capability(9, 0).precision, Precision::bf16);
  EXPECT_EQ(recommend_for_capability(7, 5).precision, Precision::fp16);
  EXPECT_EQ(recommend_for_capability(6, 0).precision, Precision::fp16);
  EXPECT_EQ(recommend_for_capability(6, 1).precision, Precision::fp32);
  EXPECT_EQ(recommend_for_capability(0, 0).precision, Precision::fp32);
}

TEST(UnusableNvidia, NamesTheCardsThatAreThere) {
  EXPECT_EQ(unusable_nvidia({}, "no driver here"), "NVIDIA: no driver here");
  EXPECT_EQ(unusable_nvidia({"0000:04:00.0"}, "reboot"),
            "NVIDIA: the GPU at 0000:04:00.0 cannot be used: reboot");
  EXPECT_EQ(unusable_nvidia({"0000:04:00.0", "0000:14:00.0"}, "reboot"),
            "NVIDIA: the GPUs at 0000:04:00.0, 0000:14:00.0 cannot be used: reboot");
}

}  // namespace
}  // namespace sluice::device
