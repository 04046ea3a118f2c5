#include "device/detect/detect.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "device/detect/tree_for_tests.h"
#include "device/doctor/doctor.h"

namespace sluice::device {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Detect, JoinsTheVendorsAndTheCpuOfOneMachine) {
  Tree tree;
  tree.file("/sys/class/drm/card0/device/vendor", "0x1002\n");
  tree.file("/sys/class/drm/card0/device/mem_info_vram_total", "17163091968\n");
  tree.file("/sys/class/drm/card1/device/vendor", "0x8086\n");
  tree.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nflags\t: avx2\n");
  DetectOptions options;
  options.root = tree.root();
  const auto found = detect(options);
  ASSERT_EQ(found.gpus.size(), 2u);
  EXPECT_EQ(found.gpus[0].vendor, Vendor::amd);
  EXPECT_EQ(found.gpus[1].vendor, Vendor::intel);
  EXPECT_EQ(found.cpu.model, "Test CPU");
  EXPECT_THAT(found.gpus[0].recommended_because, HasSubstr("listed only"));
}

TEST(Detect, ADemoStandsInForTheGpusAndSaysSo) {
  DetectOptions options;
  options.demo = "mixed-cards";
  const auto found = detect(options);
  EXPECT_EQ(found.gpus.size(), 8u);
  EXPECT_THAT(found.notes, Contains(HasSubstr("not real")));
}

TEST(Detect, ADriverThatDoesNotStartIsMoreThanANote) {
  DetectOptions options;
  options.demo = "driver-mismatch";
  const auto found = detect(options);
  EXPECT_THAT(found.driver_trouble, HasSubstr("versions differ"));
  EXPECT_THAT(found.notes, Contains(found.driver_trouble));
  options.demo = "eight-gpus";
  EXPECT_EQ(detect(options).driver_trouble, "");
}

TEST(Detect, AnUnknownDemoIsRefused) {
  DetectOptions options;
  options.demo = "no-such-story";
  EXPECT_THROW(detect(options), Error);
}

// The call stays in the fake driver for a minute; nobody waits for it.
constexpr const char* kHangs = R"({"gpus": [{"card": "l4", "events": [
    {"type": "hang", "call": "nvmlDeviceGetPersistenceMode", "seconds": 60}]}]})";

TEST(Detect, ADriverThatHangsIsNamedAndDoesNotHangUs) {
  Tree tree;
  tree.file("/hangs.json", kHangs);
  DetectOptions options;
  options.demo = (tree.root() / "hangs.json").string();
  options.timeout = std::chrono::milliseconds(300);
  const auto found = detect(options);
  EXPECT_THAT(found.gpus, IsEmpty());
  EXPECT_THAT(found.notes, Contains(HasSubstr("hangs in nvmlDeviceGetPersistenceMode")));
  EXPECT_GT(found.cpu.usable_cores, 0);
}

TEST(DoctorGather, ADriverThatHangsFailsTheDriverCheck) {
  Tree tree;
  tree.file("/hangs.json", kHangs);
  DoctorOptions options;
  options.demo = (tree.root() / "hangs.json").string();
  options.timeout = std::chrono::milliseconds(300);
  const auto checks = diagnose(gather(options));
  EXPECT_TRUE(any_failed(checks));
  EXPECT_EQ(checks[1].id, "driver");
  EXPECT_THAT(checks[1].detail, HasSubstr("hangs in nvmlDeviceGetPersistenceMode"));
}

}  // namespace
}  // namespace sluice::device
