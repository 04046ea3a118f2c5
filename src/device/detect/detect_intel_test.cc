#include "device/detect/detect_intel.h"

#include <gmock/gmock.h>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string add_intel(Tree& tree, const std::string& bus, const char* id, const char* driver) {
  const auto pci = "/sys/devices/pci0000:00/" + bus;
  tree.file(pci + "/vendor", "0x8086\n").file(pci + "/device", id);
  tree.file(pci + "/class", "0x030000\n").file(pci + "/numa_node", "-1\n");
  if (*driver != '\0') tree.link(pci + "/driver", std::string("/sys/bus/pci/drivers/") + driver);
  tree.link("/sys/class/drm/card0/device", pci);
  return pci;
}

TEST(DetectIntel, XeMemoryIsTheSumOfTheTiles) {
  Tree tree;
  const auto pci = add_intel(tree, "0000:03:00.0", "0xe20b\n", "xe");
  tree.file(pci + "/tile0/physical_vram_size_bytes", "8000000000\n");
  tree.file(pci + "/tile1/physical_vram_size_bytes", "8000000000\n");
  tree.file(pci + "/tile0/gt0/freq0/rp0_freq", "2850\n");
  tree.file(pci + "/hwmon/hwmon2/power1_max", "190000000\n");
  const auto found = detect_intel(tree.root());
  ASSERT_EQ(found.gpus.size(), 1u);
  const auto& gpu = found.gpus[0];
  EXPECT_EQ(gpu.vendor, Vendor::intel);
  EXPECT_EQ(gpu.name, "Intel GPU e20b");
  EXPECT_EQ(gpu.uuid, "INTEL-0000:03:00.0");
  EXPECT_EQ(gpu.memory_total, 16000000000u);
  EXPECT_EQ(gpu.clocks.sm_max_mhz, 2850u);
  EXPECT_EQ(gpu.power.current_w, 190.0);
  EXPECT_FALSE(gpu.numa_node) << "-1 means none";
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(DetectIntel, I915MemoryComesFromTheCardsOwnFile) {
  Tree tree;
  add_intel(tree, "0000:03:00.0", "0x56a0\n", "i915");
  tree.file("/sys/class/drm/card0/lmem_total_bytes", "17079205888\n");
  tree.file("/sys/class/drm/card0/gt_RP0_freq_mhz", "2400\n");
  const auto found = detect_intel(tree.root());
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(found.gpus[0].memory_total, 17079205888u);
  EXPECT_EQ(found.gpus[0].clocks.sm_max_mhz, 2400u);
}

TEST(DetectIntel, IntegratedGraphicsHasNoDedicatedMemoryAndSaysSo) {
  Tree tree;
  add_intel(tree, "0000:00:02.0", "0x46a6\n", "i915");
  const auto found = detect_intel(tree.root());
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_FALSE(found.gpus[0].memory_total);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("no memory of its own")));
}

TEST(DetectIntel, ACardWithoutADriverIsListedWithAFix) {
  Tree tree;
  add_intel(tree, "0000:03:00.0", "0x56a0\n", "");
  const auto found = detect_intel(tree.root());
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_THAT(found.notes[0], HasSubstr("load i915 or xe"));
}

TEST(DetectIntel, OtherVendorsAndOtherDevicesAreNotIntelGpus) {
  Tree tree;
  tree.file("/sys/class/drm/card0/device/vendor", "0x1002\n");
  tree.file("/sys/class/drm/card1/device/vendor", "0x8086\n");
  tree.file("/sys/class/drm/card1/device/class", "0x020000\n");  // a network card
  EXPECT_THAT(detect_intel(tree.root()).gpus, IsEmpty());
}

}  // namespace
}  // namespace sluice::device
