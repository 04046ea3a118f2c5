#include "device/host/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "device/demo/demo.h"

namespace sluice::device {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kGiB = 1ull << 30;
const std::string kGroup = "/sys/fs/cgroup/sluice/lease-12";

// A machine with one card and a scripted driver.
class MemoryLimit : public testing::Test {
 protected:
  ~MemoryLimit() override { std::remove(file_.c_str()); }
  std::unique_ptr<Nvml> machine(const std::string& more) {
    std::ofstream(file_) << R"({"about": "One card.", "gpus": [{"card": "h200"}], )" << more << "}";
    return open_demo(file_);
  }
  static std::string uuid(const Nvml& nvml) { return nvml.uuid(nvml.by_index(0).value).value; }

 private:
  std::string file_ = testing::TempDir() + "memory_limit_test.json";
};

TEST_F(MemoryLimit, StandsWhenTheDriverReadsItBack) {
  const auto nvml = machine(R"("driver": "615.71.09")");
  EXPECT_EQ(limit_memory(*nvml, uuid(*nvml), kGroup, 8 * kGiB), "");
  const auto gpu = nvml->by_index(0).value;
  EXPECT_EQ(nvml->memory_limits(gpu, kGroup).value.hard, 8 * kGiB);
  EXPECT_EQ(nvml->memory_limits(gpu, kGroup).value.soft, 0U);
  EXPECT_EQ(nvml->memory_limits(gpu, "/sys/fs/cgroup/other").code, nvml::Return::not_found);
}

TEST_F(MemoryLimit, AnOlderDriverSaysThatItHasNone) {
  const auto nvml = machine(R"("driver": "580.159.04")");
  EXPECT_THAT(limit_memory(*nvml, uuid(*nvml), kGroup, kGiB), HasSubstr("r615"));
}

TEST_F(MemoryLimit, ALimitThatCannotBeReadBackIsNotTrusted) {
  const auto nvml =
      machine(R"("driver": "615.71.09", "missing": ["nvmlDeviceGetMemoryLimits_v1"])");
  EXPECT_THAT(limit_memory(*nvml, uuid(*nvml), kGroup, kGiB), HasSubstr("cannot be read back"));
}

TEST_F(MemoryLimit, WithoutPermissionOrTheGpuItSaysSo) {
  const auto nvml = machine(R"("driver": "615.71.09", "may_change": false)");
  EXPECT_THAT(limit_memory(*nvml, uuid(*nvml), kGroup, kGiB), HasSubstr("takes no limit"));
  EXPECT_THAT(limit_memory(*nvml, "GPU-none", kGroup, kGiB), HasSubstr("GPU-none"));
}

}  // namespace
}  // namespace sluice::device
