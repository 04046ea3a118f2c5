#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "cli/common/commands.h"
#include "cli/detect/detect_report.h"
#include "device/demo/demo.h"

namespace sluice::cli {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

struct DetectCommand : testing::Test {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err};

  std::string call(std::initializer_list<std::string_view> args) {
    out.str("");
    EXPECT_EQ(detect({args.begin(), args.size()}, io), 0);
    return out.str();
  }
};

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(DetectCommand, EightEqualGpusShareOneBlock) {
  const auto text = call({"--demo", "eight-gpus"});
  EXPECT_THAT(text, HasSubstr("8 GPUs  NVIDIA H200"));
  EXPECT_EQ(count(text, "GPU-"), 8);
  EXPECT_EQ(count(text, "Peak rates"), 1);
  EXPECT_THAT(text, Not(HasSubstr("Overview")));
}

TEST_F(DetectCommand, DifferentGpusGetABlockEachAndAnOverview) {
  const auto text = call({"--demo", "mixed-cards"});
  EXPECT_EQ(count(text, "Peak rates"), 8);
  EXPECT_THAT(text, HasSubstr("Overview"));
}

TEST_F(DetectCommand, AFailedDriverIsShownAmongTheGpus) {
  const auto text = call({"--demo", "driver-mismatch"});
  EXPECT_THAT(text, HasSubstr("its driver does not start"));
  EXPECT_THAT(text, Not(HasSubstr("none found")));
  EXPECT_THAT(Json::parse(call({"--json", "--demo", "driver-mismatch"}))["driver_trouble"].dump(),
              HasSubstr("versions differ"));
  device::Inventory beside;
  beside.gpus.resize(1);
  beside.gpus[0].vendor = device::Vendor::amd;
  beside.gpus[0].name = "Radeon RX 7900";
  beside.driver_trouble = "NVIDIA: the GPU at 0000:04:00.0 cannot be used: reboot";
  std::ostringstream shown;
  Report report(shown, {});
  print(beside, report);
  EXPECT_THAT(shown.str(), HasSubstr("Radeon RX 7900"));
  EXPECT_THAT(shown.str(), HasSubstr("NVIDIA: the GPU at 0000:04:00.0 cannot be used"));
}

TEST_F(DetectCommand, EveryScenarioFitsEightyColumns) {
  for (const auto& name : device::demo_names()) {
    std::istringstream lines(call({"--demo", name}));
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(columns(line), 80) << name << ": " << line;
  }
}

TEST_F(DetectCommand, EveryFactOfAGpuIsPrinted) {
  const auto json = Json::parse(call({"--demo", "eight-gpus", "--json"}));
  EXPECT_EQ(json["schema"], "sluice/detect/1");
  for (const auto* key : {"vendor",
                          "uuid",
                          "bus",
                          "name",
                          "memory_total_bytes",
                          "memory_free_bytes",
                          "memory_reserved_bytes",
                          "compute_capability",
                          "driver_version",
                          "cuda_version",
                          "sm_count",
                          "numa_node",
                          "persistence_mode",
                          "clocks",
                          "power",
                          "ecc",
                          "mig",
                          "nvlinks",
                          "catalogue",
                          "recommended_precision",
                          "recommended_because"})
    EXPECT_TRUE(json["gpus"][0].contains(key)) << key;
}

TEST_F(DetectCommand, AP4IsNotAdvisedToUseFp16) {
  const auto json = Json::parse(call({"--demo", "mixed-cards", "--json"}));
  ASSERT_EQ(json["gpus"][0]["name"], "Tesla P4");
  EXPECT_THAT(json["gpus"][0]["recommended_precision"].get<std::string>(), AnyOf("int8", "fp32"));
}

TEST_F(DetectCommand, AFailedDriverIsANoteAndTheCpuIsListed) {
  const auto json = Json::parse(call({"--demo", "driver-mismatch", "--json"}));
  EXPECT_TRUE(json["gpus"].empty());
  EXPECT_THAT(json["notes"][0].get<std::string>(), HasSubstr("versions differ"));
  EXPECT_GT(json["cpu"]["usable_cores"].get<double>(), 0);
}

TEST_F(DetectCommand, AnUnknownScenarioIsAnInvalidArgument) {
  const std::string_view args[] = {"--demo", "eight-gpu"};
  try {
    detect(args, io);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("eight-gpus"));
  }
}

TEST_F(DetectCommand, TheCpuOfThisMachineIsFound) { EXPECT_THAT(call({}), HasSubstr("CPU  ")); }

TEST(Report, TextIsWrappedAtSpacesOnly) {
  EXPECT_THAT(wrapped("one two three", 7), testing::ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("overlong", 3), testing::ElementsAre("overlong"));
  EXPECT_THAT(wrapped("", 10), testing::ElementsAre(""));
  EXPECT_THAT(wrapped("a " + glued("b c"), 4), testing::ElementsAre("a", "b c"));
}

}  // namespace
}  // namespace sluice::cli
