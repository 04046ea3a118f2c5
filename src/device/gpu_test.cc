#include "device/gpu.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/demo/demo.h"
#include "device/detect/detect_nvidia.h"

namespace sluice::device {
namespace {

TEST(Gpu, RoundTripsThroughJson) {
  const auto nvml = open_demo("eight-gpus");
  freeze_demo(*nvml, 12);
  std::vector<std::string> notes;
  for (const Gpu& gpu : detect_nvidia(*nvml, notes)) {
    const Json json = to_json(gpu);
    EXPECT_EQ(to_json(gpu_from_json(json)), json);
    EXPECT_EQ(gpu_from_json(Json::parse(json.dump())).card->key, "h200");
  }
}

TEST(Gpu, LeavesOutWhatIsNotKnown) {
  Gpu gpu{};
  gpu.vendor = Vendor::intel;
  gpu.uuid = "INTEL-0000:03:00.0";
  const Json json = to_json(gpu);
  EXPECT_EQ(json.dump(), R"({"vendor":"intel","uuid":"INTEL-0000:03:00.0",)"
                         R"("recommended_precision":"fp32"})");
  EXPECT_EQ(to_json(gpu_from_json(json)), json);
}

TEST(Gpu, SaysWhatIsWrongWithADescription) {
  for (const char* broken :
       {"{}", "[]", R"({"vendor":"nvidia"})", R"({"vendor":"3dfx","uuid":"x"})",
        R"({"vendor":"amd","uuid":7})", R"({"vendor":"amd","uuid":"x","compute_capability":"new"})",
        R"({"vendor":"amd","uuid":"x","nvlinks":[{}]})",
        R"({"vendor":"amd","uuid":"x","recommended_precision":"fp12"})"})
    EXPECT_THROW(gpu_from_json(Json::parse(broken)), Error) << broken;
}

TEST(Gpu, WritesTheCpuAndTheNotesBesideTheGpus) {
  Inventory inventory;
  inventory.cpu.model = "Test CPU";
  inventory.cpu.usable_cores = 1.5;
  inventory.cpu.caches = {{1, "data", 32768}};
  inventory.cpu.numa = {{0, "0-3", std::nullopt}};
  inventory.notes = {"AMD: no amdgpu device"};
  const Json json = to_json(inventory);
  EXPECT_EQ(json.at("gpus").size(), 0u);
  EXPECT_EQ(json.at("cpu").at("usable_cores"), 1.5);
  EXPECT_EQ(json.at("cpu").at("caches")[0].at("bytes"), 32768);
  EXPECT_FALSE(json.at("cpu").contains("memory_limit_bytes"));
  EXPECT_EQ(json.at("notes")[0], "AMD: no amdgpu device");
}

}  // namespace
}  // namespace sluice::device
