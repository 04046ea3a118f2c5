#include "device/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::device {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ProfileDefaults defaults_of(std::string_view name) {
  const auto card = find_profile(name);
  EXPECT_TRUE(card) << name;
  return profile_defaults(card.value(), 0.9);
}

Inventory with(std::string_view driver_name, double gib) {
  Gpu gpu{};
  gpu.vendor = Vendor::nvidia;
  gpu.uuid = "GPU-1";
  gpu.bus = "0000:04:00.0";
  gpu.name = driver_name;
  gpu.memory_total = static_cast<std::uint64_t>(gib * (1 << 30));
  gpu.card = find_card(driver_name, gpu.memory_total);
  Inventory inventory;
  inventory.gpus.push_back(gpu);
  return inventory;
}

GpuConfig typed(std::string gpu_type) {
  GpuConfig config;
  config.gpu_type = std::move(gpu_type);
  return config;
}

TEST(Profile, BatchSizesFollowTheMemoryRows) {
  EXPECT_EQ(defaults_of("P4").batch_size, 16);        // 8 GB
  EXPECT_EQ(defaults_of("RTX 3080").batch_size, 16);  // 10 GB
  EXPECT_EQ(defaults_of("RTX 3060").batch_size, 32);  // 12 GB
  EXPECT_EQ(defaults_of("RTX 3090").batch_size, 64);  // 24 GB
  EXPECT_EQ(defaults_of("a100-80").batch_size, 64);
}

TEST(Profile, AgentsKeepTheirDefaultsWhereTheCardHasTheMemory) {
  const auto large = defaults_of("a100-80");
  EXPECT_EQ(large.batch_sizes.at("synthesizer"), 16);
  EXPECT_EQ(large.batch_sizes.at("analyst"), 32);
  EXPECT_EQ(large.batch_sizes.at("scout"), 64);
  EXPECT_EQ(large.memory_allocation.at("scout"), 8);
  EXPECT_EQ(defaults_of("P4").batch_sizes.at("scout"), 32);
}

TEST(Profile, AgentsTogetherNeverGetMoreThanTheCardHas) {
  for (const auto& card : catalogue()) {
    const auto profile = profile_defaults(card, 0.9);
    double sum = 0;
    for (const auto& [agent, gb] : profile.memory_allocation) {
      EXPECT_GT(gb, 0) << card.key << " " << agent;
      sum += gb;
    }
    EXPECT_LE(sum, profile.memory_gb * 0.9 + 1e-9) << card.key;
  }
}

TEST(Profile, PrecisionIsWhatTheCardIsGoodAt) {
  EXPECT_EQ(defaults_of("A100").precision, "bf16");
  EXPECT_EQ(defaults_of("V100").precision, "fp16");
  for (const auto* slow : {"P4", "P40", "GTX 1080 Ti"})
    EXPECT_NE(defaults_of(slow).precision, "fp16");
}

TEST(Profile, IsAbsentWithoutAKnownType) {
  EXPECT_FALSE(profile_of(typed("")));
  EXPECT_FALSE(profile_of(typed("voodoo2")));
  EXPECT_EQ(profile_of(typed("A100-80GB"))->name, "a100-80");
}

TEST(ProfileWarnings, NameBothCardsWhenTheyDiffer) {
  EXPECT_THAT(profile_warnings(typed("A100"), with("NVIDIA H200", 139.8)),
              ElementsAre(AllOf(HasSubstr("gpu.gpu_type is A100"), HasSubstr("NVIDIA A100"),
                                HasSubstr("NVIDIA H200"), HasSubstr("0000:04:00.0"))));
  EXPECT_THAT(profile_warnings(typed("RTX 3060"), with("NVIDIA GeForce RTX 3060 Ti", 8)).size(), 1);
  EXPECT_THAT(profile_warnings(typed("A10"), with("NVIDIA A100-SXM4-40GB", 40)).size(), 1);
  EXPECT_THAT(profile_warnings(typed("v100-16"), with("Tesla V100-SXM2-32GB", 32)).size(), 1);
}

TEST(ProfileWarnings, AreEmptyWhenTheCardIsOfTheFamily) {
  EXPECT_THAT(profile_warnings(typed("A100"), with("NVIDIA A100-SXM4-80GB", 80)), IsEmpty());
  EXPECT_THAT(profile_warnings(typed("V100"), with("Tesla V100-SXM2-32GB", 32)), IsEmpty());
  EXPECT_THAT(profile_warnings(typed("RTX"), with("NVIDIA GeForce RTX 4090", 24)), IsEmpty());
  EXPECT_THAT(profile_warnings(typed("RTX"), with("NVIDIA RTX A6000", 48)), IsEmpty());
  EXPECT_THAT(profile_warnings(typed("p4"), with("Tesla P4", 7.6)), IsEmpty());
  EXPECT_THAT(profile_warnings(typed(""), with("Tesla P4", 7.6)), IsEmpty());
}

TEST(ProfileWarnings, AnUnknownCardContradictsEveryProfile) {
  EXPECT_THAT(profile_warnings(typed("P4"), with("Quadro K620", 2)),
              ElementsAre(AllOf(HasSubstr("P4"), HasSubstr("Quadro K620"))));
}

TEST(ProfileWarnings, SayWhenThereIsNoGpuAtAllUnlessGpusAreOff) {
  auto config = typed("A100");
  EXPECT_THAT(profile_warnings(config, Inventory{}), ElementsAre(HasSubstr("no GPU was found")));
  config.enabled = false;
  EXPECT_THAT(profile_warnings(config, Inventory{}), IsEmpty());
}

TEST(ProfileWarnings, SayWhenAPrecisionIsSlowOnTheCard) {
  auto config = typed("P4");
  config.precision = "fp16";
  EXPECT_THAT(profile_warnings(config), ElementsAre(AllOf(HasSubstr("fp16"), HasSubstr("Tesla P4"),
                                                          HasSubstr("slower than fp32"))));
  config.gpu_type.clear();
  EXPECT_THAT(profile_warnings(config, with("Tesla P4", 7.6)), ElementsAre(HasSubstr("Tesla P4")));
  config.precision = "auto";
  EXPECT_THAT(profile_warnings(config, with("Tesla P4", 7.6)), IsEmpty());
}

TEST(ProfileWarnings, SayWhenAnAgentAsksForMoreThanACardHas) {
  auto config = typed("P4");
  config.memory_allocation["scout"] = 8;
  EXPECT_THAT(profile_warnings(config),
              ElementsAre(AllOf(HasSubstr("scout"), HasSubstr("8.0 GB"))));
}

TEST(GpuTexts, DevicesAreIndexesUuidsOrAll) {
  for (const auto* good :
       {"0", "15", "all", "GPU-5f1c0a2e-1111", "MIG-abc/1/0", "AMD-0000:03:00.0"})
    EXPECT_EQ(device_cause(good), "") << good;
  for (const auto* bad : {"", "-1", "-2", "x", "0x1", "GPU-", "99999", "GPU-!", "0 1"})
    EXPECT_NE(device_cause(bad), "") << bad;
}

TEST(GpuTexts, ContainerDevicesAcceptWhatTheToolkitAccepts) {
  for (const auto* good : {"all", "none", "void", "", "0", "0:1", "GPU-5f1c0a2e",
                           "nvidia.com/gpu=0", "/var/run/nvidia-container-devices"})
    EXPECT_EQ(container_devices_cause(good), "") << good;
  EXPECT_NE(container_devices_cause("al"), "");
  EXPECT_EQ(capability_cause("compute"), "");
  EXPECT_THAT(capability_cause("comptue"), HasSubstr("did you mean 'compute'"));
}

TEST(GpuTexts, AnUnknownTypeNamesTheNearestCard) {
  EXPECT_EQ(gpu_type_cause(""), "");
  EXPECT_EQ(gpu_type_cause("RTX 3060 Ti"), "");
  EXPECT_THAT(gpu_type_cause("A100-81"), HasSubstr("did you mean 'a100-80'"));
}

TEST(Autoscaling, LimitsMustBeInOrder) {
  AutoscalingConfig config;
  std::vector<std::string> found;
  config.check_together(found);
  EXPECT_THAT(found, IsEmpty());
  config.min_instances = 3;
  config.target = 120;
  config.check_together(found);
  EXPECT_THAT(found, ElementsAre(HasSubstr("min_instances (3) is above max_instances (1)"),
                                 HasSubstr("percentage and above 100")));
}

}  // namespace
}  // namespace sluice::device
