#include "device/detect/detect_amd.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "device/detect/tree_for_tests.h"

namespace sluice::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void add_card(Tree& tree, int number, const std::string& bus, const char* vendor) {
  const auto pci = "/sys/devices/pci0000:00/" + bus;
  const auto card = "/sys/class/drm/card" + std::to_string(number);
  tree.file(pci + "/vendor", vendor).file(pci + "/device", "0x74a1\n");
  tree.file(pci + "/class", "0x038000\n");
  tree.file(pci + "/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=" + bus + "\n");
  tree.link(pci + "/driver", "/sys/bus/pci/drivers/amdgpu");
  tree.link(card + "/device", pci);
  tree.file(card + "-DP-1/status", "disconnected");  // a connector is not a card
}

TEST(DetectAmd, AMachineWithoutAmdCardsHasNoneAndNoComplaint) {
  Tree tree;
  add_card(tree, 0, "0000:01:00.0", "0x10de\n");
  const auto found = detect_amd(tree.root());
  EXPECT_THAT(found.gpus, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(DetectAmd, ReadsMemoryClocksPowerAndPlaceFromSysfs) {
  Tree tree;
  add_card(tree, 1, "0000:c3:00.0", "0x1002\n");
  const std::string pci = "/sys/devices/pci0000:00/0000:c3:00.0";
  tree.file(pci + "/mem_info_vram_total", "206141652992\n");
  tree.file(pci + "/mem_info_vram_used", "297799680\n");
  tree.file(pci + "/numa_node", "1\n").file(pci + "/unique_id", "a4ff42e6e4cc30ff\n");
  tree.file(pci + "/product_name", "AMD INSTINCT MI300X\n");
  tree.file(pci + "/pp_dpm_sclk", "0: 500Mhz\n1: 1283Mhz *\n2: 2100Mhz\n");
  tree.file(pci + "/hwmon/hwmon4/power1_cap", "750000000\n");
  tree.file(pci + "/hwmon/hwmon4/power1_cap_min", "0\n");
  tree.file("/sys/module/amdgpu/version", "6.12.12\n");

  const auto found = detect_amd(tree.root(), "");
  ASSERT_EQ(found.gpus.size(), 1u);
  const auto& gpu = found.gpus[0];
  EXPECT_EQ(gpu.vendor, Vendor::amd);
  EXPECT_EQ(gpu.name, "AMD INSTINCT MI300X");
  EXPECT_EQ(gpu.uuid, "AMD-a4ff42e6e4cc30ff");
  EXPECT_EQ(gpu.bus, "0000:c3:00.0");
  EXPECT_EQ(gpu.memory_total, 206141652992u);
  EXPECT_EQ(gpu.memory_free, 206141652992u - 297799680u);
  EXPECT_EQ(gpu.clocks.sm_mhz, 1283u);
  EXPECT_EQ(gpu.clocks.sm_max_mhz, 2100u);
  EXPECT_EQ(gpu.power.current_w, 750.0);
  EXPECT_FALSE(gpu.power.min_w) << "zero is how amdgpu says it does not know";
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_EQ(gpu.driver_version, "6.12.12");
}

TEST(DetectAmd, AnUnnamedCardIsLookedUpInThePciList) {
  Tree tree;
  add_card(tree, 0, "0000:03:00.0", "0x1002\n");
  EXPECT_EQ(detect_amd(tree.root(), "").gpus[0].name, "AMD GPU 74a1");
  EXPECT_EQ(detect_amd(tree.root(), "").gpus[0].uuid, "AMD-0000:03:00.0");
  tree.file(
      "/usr/share/misc/pci.ids",
      "# list\n1001  Other\n\t74a1  Wrong\n1002  AMD\n\t74a1  Aqua Vanjaram\n\t\t1002 74a1  x\n");
  EXPECT_EQ(detect_amd(tree.root(), "").gpus[0].name, "AMD Aqua Vanjaram");
}

TEST(DetectAmd, TheLibraryNamesWhatItKnowsAndSysfsKeepsTheRest) {
  Tree tree;
  add_card(tree, 0, "0000:c3:00.0", "0x1002\n");
  add_card(tree, 1, "0000:c6:00.0", "0x1002\n");
  const auto found = detect_amd(tree.root(), SLUICE_FAKE_AMD_SMI);
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_EQ(found.gpus[0].name, "AMD Instinct MI300X");
  EXPECT_EQ(found.gpus[0].uuid, "a4ff740f-0000-1000-80aa-42e6e4cc30ff");
  EXPECT_EQ(found.gpus[0].driver_version, "6.12.12");
  EXPECT_EQ(found.gpus[0].memory_total, 206141652992u);
  EXPECT_EQ(found.gpus[1].uuid, "AMD-0000:c6:00.0");
  EXPECT_FALSE(found.gpus[1].memory_total);
}

TEST(DetectAmd, ALibraryThatIsMissingOrBrokenBecomesANote) {
  Tree tree;
  add_card(tree, 0, "0000:c3:00.0", "0x1002\n");
  auto found = detect_amd(tree.root(), "libamd_smi_nowhere.so");
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_THAT(found.notes, ElementsAre("AMD: libamd_smi_nowhere.so not found; read from sysfs"));

  setenv("FAKE_AMD_SMI", "broken", 1);
  found = detect_amd(tree.root(), SLUICE_FAKE_AMD_SMI);
  unsetenv("FAKE_AMD_SMI");
  EXPECT_EQ(found.gpus.size(), 1u);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("failed to initialise (status 34)")));
}

}  // namespace
}  // namespace sluice::device
